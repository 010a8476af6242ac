// SPDX-License-Identifier: GPL-3.0-or-later
/// The options that name allocators of the user's, and probes. What is wrong is a UsageError.
#pragma once

#include <string>

#include "memleax/allocators/allocator_api.hpp"

namespace memleax {

/// What is followed: "heap,mmap,brk,shm"
void set_tracked(AllocatorApi& api, const std::string& option, const std::string& text);
/// NAME:size=ARG[,count=ARG][,out=ARG]
void add_alloc(AllocatorApi& api, const std::string& option, const std::string& text);
/// NAME:ptr=ARG[,next=ARG]
void add_free(AllocatorApi& api, const std::string& option, const std::string& text);
/// NAME:ptr=ARG,size=ARG[,count=ARG]
void add_realloc(AllocatorApi& api, const std::string& option, const std::string& text);
/// ACQUIRE,RELEASE[:int][,out=ARG][,handle=ARG]
void add_resource(AllocatorApi& api, const std::string& option, const std::string& text);
/// PROVIDER:NAME, a glob, or FUNCTION
void add_probe(AllocatorApi& api, const std::string& option, const std::string& text);
/// PREFIX
void add_allocator_prefix(AllocatorApi& api, const std::string& option, const std::string& text);
/// A file of lines "alloc NAME:..." and so on; a name without a slash is that of one of ours.
void add_allocator_file(AllocatorApi& api, const std::string& option, const std::string& text);

} // namespace memleax
