// SPDX-License-Identifier: GPL-3.0-or-later
#include "block_words.hpp"

namespace memleax {

void BlockWords::next() {
    const std::size_t block = contents_->next_block();
    if (block == blocks_.size()) {
        begin_ = end_ = ~0ULL; // no word is there
        return;
    }
    contents_->begin_block();
    begin_ = blocks_[block].address.value();
    end_ = begin_ + blocks_[block].size;
}

void BlockWords::add_link(std::uint64_t at, std::uint64_t word) {
    if (const auto link = index_.find(word, BlockIndex::LastWord::is_block)) {
        const std::uint64_t number = (at - begin_) / sizeof at;
        contents_->add_link(*link, number);
        if (link->is_interior()) {
            contents_->note_offset(*link, index_.offset(*link, word));
        }
        if (const auto end = index_.find_end_at(*link)) {
            contents_->add_link(*end, number);
        }
    }
}

} // namespace memleax
