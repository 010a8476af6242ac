// SPDX-License-Identifier: GPL-3.0-or-later
#include "gzip_sink.hpp"

#include <algorithm>
#include <limits>
#include <new>

namespace memleax {

namespace {
/// zlib's largest window, with a gzip header instead of its own (zlib.h, deflateInit2).
constexpr int kGzipWindow = 15 + 16;
constexpr int kDefaultMemory = 8;
} // namespace

GzipSink::GzipSink(ReportSink& out) : out_(out) {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kDefaultMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::bad_alloc(); // the only reason, with arguments that are right
    }
}

GzipSink::~GzipSink() {
    deflateEnd(&stream_);
}

void GzipSink::deflate_all(int flush) {
    do {
        stream_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
        stream_.avail_out = static_cast<uInt>(compressed_.size());
        deflate(&stream_, flush);
        out_.write({compressed_.data(), compressed_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0); // there was more than fits
}

void GzipSink::write(std::string_view piece) {
    while (!piece.empty()) {
        const std::size_t size =
            std::min<std::size_t>(piece.size(), std::numeric_limits<uInt>::max());
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
        stream_.avail_in = static_cast<uInt>(size);
        deflate_all(Z_NO_FLUSH);
        piece.remove_prefix(size);
    }
}

void GzipSink::finish() {
    deflate_all(Z_FINISH);
}

} // namespace memleax
