// SPDX-License-Identifier: GPL-3.0-or-later
// The static program's dlopen(3) (ld's --wrap): it loads nothing. glibc would load a second C
// library, which has to be of the version that was linked in.
#ifdef MEMLEAX_STATIC

extern "C" void* __wrap_dlopen(const char* /*file*/, int /*mode*/) {
    return nullptr;
}

#endif
