// SPDX-License-Identifier: GPL-3.0-or-later
#include "block_words.hpp"

namespace memleax {

BlockWords::BlockWords(const BlockIndex& index, HeapGraph* graph, bool details)
    : index_(index), graph_(graph), details_(details) {
    graph_->first_link.reserve(graph_->blocks.size() + 1);
    if (details_) {
        graph_->details.first_words.resize(graph_->blocks.size());
    }
}

void BlockWords::next() {
    const auto& blocks = graph_->blocks;
    if (graph_->first_link.size() == blocks.size()) {
        begin_ = end_ = ~0ULL; // no word is there
        return;
    }
    block_ = graph_->first_link.size();
    graph_->first_link.push_back(graph_->links.size());
    begin_ = blocks[block_].address.value();
    end_ = begin_ + blocks[block_].size;
}

void BlockWords::add_link(std::uint64_t at, std::uint64_t word) {
    const auto add = [&](BlockLink link) {
        graph_->links.push_back(link);
        if (details_) {
            graph_->details.link_words.push_back(
                static_cast<std::uint32_t>((at - begin_) / sizeof at));
        }
    };
    if (const auto link = index_.find(word, BlockIndex::LastWord::is_block)) {
        add(*link);
        if (const auto end = index_.find_end_at(*link)) {
            add(*end);
        }
    }
}

void BlockWords::finish() {
    graph_->first_link.resize(graph_->blocks.size() + 1, graph_->links.size());
}

} // namespace memleax
