// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the support library from being empty; shared helpers of the tests stand in *_support.cpp.
