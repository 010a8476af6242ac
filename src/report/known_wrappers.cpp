// SPDX-License-Identifier: GPL-3.0-or-later
#include "known_wrappers.hpp"

#include <algorithm>
#include <array>

#include <fnmatch.h>

namespace memleax {

namespace {

/// Globs. A function that allocates *something* (session_alloc, sdsnewlen) is none of them: it may
/// be the one that leaks. One that hands out the memory of any object, or an arena, is.
constexpr std::array kWrappers{
    // xmalloc, zmalloc, my_malloc, g_malloc, os::malloc, PyMem_Malloc, CRYPTO_malloc, emalloc
    "*malloc", "*calloc", "*realloc", "*reallocarray", "*memalign", "*strdup", "*strndup",
    "*memdup", "*malloc0", "*malloc_n", "*malloc0_n", "*calloc_n", "*realloc_n", "*Malloc",
    "*Calloc", "*Realloc", "*aligned_alloc", "*AlignedAlloc", "*mallocarray", "*mallocz",
    // redis, valkey
    "zmalloc_*", "zcalloc_*", "zrealloc_*", "ztry*alloc*",
    // PostgreSQL
    "palloc", "palloc0", "palloc_*", "repalloc", "repalloc_*", "pnstrdup", "MemoryContextAlloc*",
    "AllocSetAlloc*", "AllocSetRealloc", "GenerationAlloc*", "SlabAlloc*", "pg_malloc_*",
    "AllocSetContextCreate*", "GenerationContextCreate", "SlabContextCreate",
    // nginx, Apache's APR, talloc
    "ngx_alloc", "ngx_create_pool", "ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc", "ngx_memalign",
    "apr_palloc", "apr_pcalloc", "apr_pcalloc_debug", "apr_pmemdup", "apr_pstrdup", "apr_pstrndup",
    "apr_allocator_alloc", "allocator_alloc", "_talloc*", "talloc_*",
    // glib
    "g_slice_alloc*", "g_try_*alloc*", "g_rc_box_alloc*",
    // OpenSSL, SQLite, libxml2, curl
    "CRYPTO_zalloc", "CRYPTO_aligned_alloc", "OPENSSL_zalloc", "sqlite3*Malloc*", "sqlite3*malloc*",
    "sqlite3*Realloc*", "mallocWithAlarm", "xmlMem*Loc", "Curl_c*alloc",
    // Python: memory, and objects that the caller fills
    "_Py*_*alloc*", "Py*_*alloc*", "new_arena", "_PyObject_Arena*", "_PyObject_GC_Alloc",
    "gc_alloc", "_PyObject_New", "_PyObject_NewVar", "_PyObject_GC_New", "_PyObject_GC_NewVar",
    "PyType_GenericAlloc", "_PyType_AllocNoTrack", "PyBytes_FromStringAndSize", "_PyBytes_FromSize",
    "PyUnicode_New",
    // Ruby, PHP, Perl
    "ruby_x*alloc*", "rb_x*alloc*", "objspace_x*alloc*", "_emalloc*", "_ecalloc", "_erealloc*",
    "_safe_*alloc*", "_estr*dup", "Perl_safesys*alloc", "Perl_safe*alloc",
    // HotSpot, node
    "os::malloc", "os::realloc", "AllocateHeap", "ReallocateHeap", "node::UncheckedMalloc*",
    "node::UncheckedRealloc*", "node::Malloc*", "node::Realloc*",
    // mariadb, bind
    "my_multi_malloc*", "alloc_root", "isc__mem_get", "isc__mem_allocate", "isc__mem_strdup",
    // allocators with names of their own, linked into the program
    "je_*alloc*", "mi_*alloc*", "tc_*alloc*", "mi_new*", "tc_new*", "do_malloc*", "*::do_malloc*",
    "*::do_slow_malloc*", "imalloc*", "*mallocx", "*rallocx"};

} // namespace

bool is_known_wrapper(const std::string& name) {
    return std::any_of(kWrappers.begin(), kWrappers.end(),
                       [&name](const char* glob) { return fnmatch(glob, name.c_str(), 0) == 0; });
}

} // namespace memleax
