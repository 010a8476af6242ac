// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/process_account.hpp"

#include <algorithm>
#include <utility>

#include <malloc.h>

#include "arch.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/proc/pid_namespace.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

/// The symbol search in a new program allocates forty times what its account keeps, and what is
/// kept lies in between.
constexpr std::size_t kSettledForEachTrim = 16;

/// What is free in the middle of the heap, too, which free(3) never gives back.
void give_free_memory_back() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

bool by_number(const ProcessAccount* a, const ProcessAccount* b) {
    return a->number() < b->number();
}

} // namespace

ProcessAccount::ProcessAccount(ProcessFacts facts, const Tracker::Options& options,
                               const std::atomic<bool>& abandoned,
                               const Symbolizer::Options& symbols)
    : facts_(std::move(facts)), tracker_(options, abandoned), names_(mailbox_, tracker_, symbols) {}

ProcessFacts ProcessAccount::facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
}

bool ProcessAccount::has_been_watched() const {
    const std::lock_guard lock(mutex_);
    return facts_.watched.has_value();
}

MonotonicNs ProcessAccount::time(MonotonicNs now) const {
    const std::lock_guard lock(mutex_);
    return std::min(now, facts_.ended.value_or(now));
}

void ProcessAccount::forget_old_heap() {
    if (heap_ == nullptr) {
        return;
    }
    const auto gone = tracker_.with([](Tracker& tracker) { return tracker.memory_gone_at(); });
    if (gone && *gone > heap_->snapshot().time) {
        heap_.reset();
    }
}

void ProcessAccount::add_memory(MemoryLook look, bool is_last) {
    has_last_memory_ = is_last;
    if (!memory_) {
        memory_ = MemoryLooks{look, {}};
    }
    memory_->last = std::move(look);
}

bool ProcessAccount::settle() {
    constexpr std::size_t kExpireBudget = 256;
    std::optional<MonotonicNs> ended;
    {
        const std::lock_guard lock(mutex_);
        ended = facts_.ended;
    }
    if (!is_given_up() && (!ended || (memory_ && !has_last_memory_))) {
        return false;
    }
    return tracker_.with([&](Tracker& tracker) {
        if (ended && (tracker.expire(*ended, kExpireBudget) || tracker.has_notices())) {
            return false;
        }
        tracker.compact();
        return true;
    });
}

void ProcessAccount::on_given_up() {
    given_up_.store(true);
    tracker_.on_process_ended();
    mailbox_.close();
}

void ProcessAccount::on_program(ProgramFacts program) {
    const std::lock_guard lock(mutex_);
    facts_.executable = std::move(program.executable);
    facts_.comm = std::move(program.comm);
    facts_.engine = std::move(program.engine);
    facts_.arch = arch::kName;
}

void ProcessAccount::on_engine(std::string engine) {
    const std::lock_guard lock(mutex_);
    facts_.engine = std::move(engine);
}

void ProcessAccount::on_watching(std::size_t threads) {
    const std::lock_guard lock(mutex_);
    facts_.threads = threads;
    facts_.watched = facts_.watched.value_or(monotonic_now());
}

void ProcessAccount::on_modules(const ModuleMap& modules) {
    // As long as it can be asked; names are looked up after its end, too.
    if (const auto info = try_read_process_info(facts_.pid)) {
        if (generated_.own_number == 0) { // it stays the same
            generated_.own_number = own_number_of(facts_.pid);
        }
        generated_.owner = info->uid;
    }
    generated_.root = modules.main() != nullptr ? modules.main()->root : generated_.root;
    mailbox_.put(modules, generated_);
}

void ProcessAccount::on_stopped(bool stopped) {
    const std::lock_guard lock(mutex_);
    facts_.stopped = stopped;
}

void ProcessAccount::on_ended(std::optional<int> status) {
    tracker_.on_process_ended();
    mailbox_.close();
    const std::lock_guard lock(mutex_);
    facts_.ended = monotonic_now();
    facts_.status = status;
}

ProcessAccounts::ProcessAccounts(const Tracker::Options& options, std::string debug_file,
                                 DebugSources sources)
    : options_(options), debug_file_(std::move(debug_file)),
      images_(make_debug_images(std::move(sources))) {}

ProcessAccount& ProcessAccounts::add(Tid pid, Tid parent) {
    const std::lock_guard lock(mutex_);
    ProcessFacts facts;
    facts.number = static_cast<unsigned>(accounts_.size() + 1);
    facts.pid = pid;
    facts.parent = parent;
    accounts_.push_back(std::make_unique<ProcessAccount>(
        std::move(facts), options_, abandoned_,
        // A child may run another program; where it does not, it shares the image of the first one.
        Symbolizer::Options{.main_debug_file = accounts_.empty() ? debug_file_ : "",
                            .images = images_}));
    active_.push_back(accounts_.back().get());
    return *accounts_.back();
}

std::vector<ProcessAccount*> ProcessAccounts::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<ProcessAccount*> result;
    for (const auto& account : accounts_) {
        if (!account->is_given_up() && (result.empty() || account->has_been_watched())) {
            result.push_back(account.get());
        }
    }
    return result;
}

std::vector<ProcessAccount*> ProcessAccounts::active() const {
    const std::lock_guard lock(mutex_);
    const auto first = std::find_if(accounts_.begin(), accounts_.end(),
                                    [](const auto& each) { return !each->is_given_up(); });
    std::vector<ProcessAccount*> result;
    for (ProcessAccount* account : active_) {
        if (!account->is_given_up() && (account == first->get() || account->has_been_watched())) {
            result.push_back(account);
        }
    }
    return result;
}

// Without the lock meanwhile: the tracer thread waits for it when a child is born.
void ProcessAccounts::retire_if(const std::function<bool(ProcessAccount&)>& is_settled) {
    std::vector<ProcessAccount*> settled;
    {
        const std::lock_guard lock(mutex_);
        settled = active_;
    }
    std::erase_if(settled, [&](ProcessAccount* account) { return !is_settled(*account); });
    settled_since_trim_ += settled.size();
    if (const MonotonicNs now = monotonic_now(); settled_since_trim_ >= kSettledForEachTrim &&
                                                 now.value() - last_trim_.value() >= kNsPerSecond) {
        settled_since_trim_ = 0;
        last_trim_ = now;
        give_free_memory_back();
    }
    if (settled.empty()) {
        return;
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(active_, [&settled](ProcessAccount* account) {
        return std::binary_search(settled.begin(), settled.end(), account, by_number);
    });
}

ProcessAccount* ProcessAccounts::first() const {
    const auto some = all();
    return some.empty() ? nullptr : some.front();
}

ProcessAccount* ProcessAccounts::find(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    if (number < 1 || number > accounts_.size() || accounts_[number - 1]->is_given_up()) {
        return nullptr;
    }
    return accounts_[number - 1].get();
}

void ProcessAccounts::set_expire_ns(std::int64_t expire_ns) {
    const std::lock_guard lock(mutex_);
    options_.expire_ns = expire_ns;
    active_.clear();
    for (const auto& account : accounts_) {
        active_.push_back(account.get());
        account->tracker().with([expire_ns](Tracker& t) { t.set_expire_ns(expire_ns); });
    }
}

} // namespace memleax
