// SPDX-License-Identifier: GPL-3.0-or-later
/// What is found in the blocks of a graph, from the first block to the last, goes into the graph.
#pragma once

#include <cstdint>
#include <span>

#include "memleax/heap/file_data.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/heap/heap_snapshot.hpp"

namespace memleax {

/// Where details of the graph, which has its blocks, are to be noted; null: nowhere.
inline HeapDetails* details_of(HeapGraph* graph, const HeapOptions& options) {
    if (!options.details) {
        return nullptr;
    }
    graph->details.pointer_offsets.resize(graph->blocks.size());
    return &graph->details;
}

class BlockContents {
  public:
    /// The graph has its blocks. The mappings, which ascend, and the graph must outlive this.
    BlockContents(std::span<const Mapping> mappings, const HeapOptions& options, HeapGraph* graph)
        : file_data_(mappings), options_(options), graph_(graph) {
        graph_->links.reserve(graph_->blocks.size());
    }

    /// The number of the block that comes next.
    [[nodiscard]] std::size_t next_block() const { return graph_->links.begun(); }
    void begin_block() { graph_->links.begin_block(); }
    /// The first word of the block that began last.
    void take_first_word(std::uint64_t word) {
        if (options_.details && word % sizeof word == 0 && file_data_.contains(word)) {
            graph_->details.first_words.push_back(
                {static_cast<std::uint32_t>(next_block() - 1), word});
        }
    }
    /// A link in its word `number`.
    void add_link(BlockLink link, std::uint64_t number) {
        graph_->links.add(link);
        if (options_.link_words) {
            graph_->details.link_words.push_back(static_cast<std::uint32_t>(number));
        }
    }
    /// That is to so many bytes behind the begin of its block.
    void note_offset(BlockLink link, std::uint64_t offset) {
        if (options_.details) {
            graph_->details.pointer_offsets.add(link.block(), offset);
        }
    }
    /// There is nothing more.
    void finish() { graph_->links.finish(graph_->blocks.size()); }

  private:
    FileData file_data_;
    const HeapOptions& options_;
    HeapGraph* graph_;
};

} // namespace memleax
