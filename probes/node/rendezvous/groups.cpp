#include "probes/node/rendezvous/groups.h"

#include <algorithm>
#include <utility>

#include "probes/observations/rank_list.h"

namespace dlc::rendezvous {
namespace {

constexpr std::size_t kMaxGroups = 1024;
constexpr std::size_t kMaxValuesPerRank = 256;
constexpr std::size_t kMaxStrangers = 8;

}  // namespace

Groups::Place* Groups::PlaceOf(PeerId peer) {
  const auto it = places_.find(peer);
  return it == places_.end() ? nullptr : &it->second;
}

void Groups::Answer(PeerId peer, const Error& error) {
  replies_.push_back({peer, ErrorFrame(error)});
}

/// "rank 2 on host-b"; the host is known if it ever joined the run.
std::string Groups::RankText(const Group& group, int rank) const {
  std::string host = group.members[static_cast<std::size_t>(rank)].host;
  const auto run = groups_.find(kRunGroup);
  if (host.empty() && run != groups_.end()) {
    host = run->second.members[static_cast<std::size_t>(rank)].host;
  }
  return "rank " + std::to_string(rank) + (host.empty() ? "" : " on " + host);
}

Error Groups::Missing(const Group& group, const std::string& what_they_miss,
                      const std::vector<int>& ranks) const {
  std::string who = RankList(ranks) + " of " + std::to_string(size_);
  if (ranks.size() == 1) {
    const std::string named = RankText(group, ranks[0]);
    const auto on = named.find(" on ");
    who += on == std::string::npos ? "" : named.substr(on);
  }
  std::string message = who + " " + what_they_miss;
  for (const std::string& stranger : strangers_) {
    message += "; " + stranger;
  }
  return {ErrorCode::kTimedOut, message,
          "look at that rank's own output; it names what held it up"};
}

void Groups::NoteStranger(const std::string& what) {
  if (strangers_.size() < kMaxStrangers) {
    strangers_.push_back(what);
  }
}

void Groups::Break(Group& group, const Error& error) {
  if (!group.broken) {
    group.broken = error;
  }
  for (const Waiter& waiter : group.joining) {
    Answer(waiter.peer, *group.broken);
  }
  for (const Waiter& waiter : group.gathering.waiters) {
    Answer(waiter.peer, *group.broken);
  }
  group.joining.clear();
  group.gathering.waiters.clear();
}

/// A group cannot come together, or go on, without a rank that left it or left the run.
void Groups::BreakIfLost(Group& group) {
  const auto run = groups_.find(kRunGroup);
  for (int rank = 0; rank < size_ && !group.broken; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const Member& member = group.members[index];
    const bool lost_here = member.left;
    const bool lost_run = run != groups_.end() && run->second.members[index].left;
    if (lost_here || (lost_run && member.peer == 0)) {
      const bool goodbye =
          lost_here ? member.said_goodbye : run->second.members[index].said_goodbye;
      Break(group, {ErrorCode::kUnavailable,
                    RankText(group, rank) + (goodbye ? " had already finished" : " was lost") +
                        (group.name == kRunGroup ? "" : " (" + group.name + ")"),
                    "look at that rank's own output and at its pod's last state"});
    }
  }
}

void Groups::Join(PeerId peer, const JoinRequest& request, const std::string& address) {
  const std::string who =
      "rank " + std::to_string(request.rank) + " (" + request.host + " at " + address + ")";
  const bool fits = request.size == size_ && request.rank >= 0 && request.rank < size_;
  if (groups_.size() >= kMaxGroups && groups_.find(request.group) == groups_.end()) {
    return Answer(peer, {ErrorCode::kInternal, "too many groups of ranks", ""});
  }
  Group& group = groups_[request.group];
  if (group.members.empty()) {
    group.name = request.group;
    group.members.resize(static_cast<std::size_t>(size_));
    group.gathering.parts.resize(static_cast<std::size_t>(size_));
  }
  if (!fits) {
    const Error error{ErrorCode::kInvalidInput,
                      who + " says WORLD_SIZE " + std::to_string(request.size) +
                          ", the rendezvous expects " + std::to_string(size_),
                      "start every rank with the same WORLD_SIZE"};
    Answer(peer, error);
    return group.complete ? NoteStranger(error.message) : Break(group, error);
  }
  Member& member = group.members[static_cast<std::size_t>(request.rank)];
  if (group.name == kRunGroup && group.complete && member.said_goodbye) {
    // A run has one meeting after the other at one address: this one is about to end.
    replies_.push_back({peer, Frame(Kind::kOver, "")});
    return;
  }
  if (member.peer != 0) {
    const Error error{ErrorCode::kInvalidInput,
                      "rank " + std::to_string(request.rank) + " arrived twice (from " +
                          member.host + " at " + member.address + " and from " + request.host +
                          " at " + address + ")",
                      "give every rank its own RANK, and every run its own secret"};
    Answer(peer, error);
    return group.complete ? NoteStranger(error.message) : Break(group, error);
  }
  member.peer = peer;
  member.host = request.host;
  member.address = address;
  places_[peer] = {&group, request.rank};
  group.joining.push_back({peer, Deadline::After(std::chrono::milliseconds(request.wait_ms))});
  if (group.broken) {
    return Break(group, *group.broken);
  }
  BreakIfLost(group);
  CompleteJoin(group);
}

void Groups::CompleteJoin(Group& group) {
  const bool all = std::all_of(group.members.begin(), group.members.end(),
                               [](const Member& m) { return m.peer != 0; });
  if (!all || group.broken) {
    return;
  }
  group.complete = true;
  ByteWriter payload;
  payload.U32(static_cast<std::uint32_t>(size_));
  for (const Member& member : group.members) {
    payload.Text(member.host);
  }
  const std::string frame = Frame(Kind::kJoined, payload.Take());
  for (const Waiter& waiter : group.joining) {
    replies_.push_back({waiter.peer, frame});
  }
  group.joining.clear();
}

void Groups::Gather(PeerId peer, std::uint32_t sequence, std::string_view what,
                    std::string_view bytes, Deadline deadline) {
  Place* place = PlaceOf(peer);
  if (place == nullptr) {
    return;
  }
  Group& group = *place->group;
  if (group.broken) {
    return Answer(peer, *group.broken);
  }
  Gathering& gathering = group.gathering;
  const bool first = gathering.waiters.empty();
  if (first) {
    gathering.what = what;
  }
  std::optional<std::string>& part = gathering.parts[static_cast<std::size_t>(place->rank)];
  if (sequence != gathering.sequence || gathering.what != what || part) {
    const Error error{ErrorCode::kInternal,
                      RankText(group, place->rank) + " called " + std::string(what) + " " +
                          std::to_string(sequence) + " while others called " + gathering.what +
                          " " + std::to_string(gathering.sequence) + " (" + group.name + ")",
                      "every rank must run the same plan with the same dlc-probe"};
    Answer(peer, error);
    return Break(group, error);
  }
  part = std::string(bytes);
  gathering.waiters.push_back({peer, deadline});
  CompleteGather(group);
}

void Groups::CompleteGather(Group& group) {
  Gathering& gathering = group.gathering;
  if (gathering.waiters.size() < group.members.size()) {
    return;
  }
  ByteWriter payload;
  payload.U32(static_cast<std::uint32_t>(size_));
  for (const auto& part : gathering.parts) {
    payload.Text(part.value_or(""));
  }
  const std::string frame = Frame(Kind::kGathered, payload.Take());
  for (const Waiter& waiter : gathering.waiters) {
    replies_.push_back({waiter.peer, frame});
  }
  const std::uint32_t next = gathering.sequence + 1;
  gathering = {};
  gathering.sequence = next;
  gathering.parts.resize(static_cast<std::size_t>(size_));
}

void Groups::Put(PeerId peer, std::string_view key, std::string_view bytes) {
  Place* place = PlaceOf(peer);
  if (place == nullptr) {
    return;
  }
  auto& values = place->group->members[static_cast<std::size_t>(place->rank)].values;
  if (values.size() >= kMaxValuesPerRank || key.size() > kMaxNameBytes) {
    return Answer(peer, {ErrorCode::kInternal, "too many values from one rank", ""});
  }
  values.insert_or_assign(std::string(key), std::string(bytes));
  replies_.push_back({peer, Frame(Kind::kStored, "")});
  AnswerGets(*place->group);
}

void Groups::Get(PeerId peer, int rank, std::string_view key, Deadline deadline) {
  Place* place = PlaceOf(peer);
  if (place == nullptr) {
    return;
  }
  if (rank != kAnyRank && (rank < 0 || rank >= size_)) {
    return Answer(peer, {ErrorCode::kInternal, "no rank " + std::to_string(rank), ""});
  }
  place->group->getting.push_back({{peer, deadline}, rank, std::string(key)});
  AnswerGets(*place->group);
}

/// True: answered.
bool Groups::TellOfLost(const Group& group, PeerId peer) {
  std::string stopped;
  for (int rank = 0; rank < size_; ++rank) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.left && !member.said_goodbye) {
      Answer(peer, {ErrorCode::kUnavailable, RankText(group, rank) + " was lost",
                    "look at that rank's own output and at its pod's last state"});
      return true;
    }
    const auto why = member.values.find(kWhyStopped);
    if (stopped.empty() && member.peer != peer && why != member.values.end()) {
      stopped = RankText(group, rank) + " stopped: " + why->second;
    }
  }
  if (!stopped.empty()) {
    Answer(peer, {ErrorCode::kUnavailable, stopped, ""});
  }
  return !stopped.empty();
}

void Groups::AnswerGets(Group& group) {
  std::erase_if(group.getting, [&](const Getting& wish) {
    if (wish.rank == kAnyRank) {
      return TellOfLost(group, wish.waiter.peer);
    }
    const Member& member = group.members[static_cast<std::size_t>(wish.rank)];
    const auto value = member.values.find(wish.key);
    if (value != member.values.end()) {
      replies_.push_back({wish.waiter.peer, Frame(Kind::kValue, value->second)});
      return true;
    }
    if (member.left) {
      Answer(wish.waiter.peer,
             {ErrorCode::kUnavailable,
              RankText(group, wish.rank) + " was lost before it gave its " + wish.key,
              "look at that rank's own output and at its pod's last state"});
      return true;
    }
    return false;
  });
}

void Groups::Leave(PeerId peer, bool said_goodbye) {
  Place* place = PlaceOf(peer);
  if (place == nullptr) {
    return;
  }
  Group& group = *place->group;
  Member& member = group.members[static_cast<std::size_t>(place->rank)];
  member.left = true;
  member.said_goodbye = said_goodbye;
  places_.erase(peer);
  const auto is_peer = [&](const Waiter& waiter) { return waiter.peer == peer; };
  std::erase_if(group.joining, is_peer);
  std::erase_if(group.gathering.waiters, is_peer);
  std::erase_if(group.getting, [&](const Getting& wish) { return is_peer(wish.waiter); });
  AnswerGets(group);
  // Members that say goodbye all at once at the end break nothing for those already done.
  BreakIfLost(group);
  if (group.name == kRunGroup) {
    for (auto& [name, other] : groups_) {
      BreakIfLost(other);
    }
  }
}

void Groups::ExpireGroup(Group& group) {
  const auto passed = [](const Waiter& waiter) { return waiter.deadline.Passed(); };
  if (std::any_of(group.joining.begin(), group.joining.end(), passed)) {
    std::vector<int> absent;
    for (int rank = 0; rank < size_; ++rank) {
      if (group.members[static_cast<std::size_t>(rank)].peer == 0) {
        absent.push_back(rank);
      }
    }
    Break(
        group,
        Missing(group, group.name == kRunGroup ? "never arrived" : "never arrived at " + group.name,
                absent));
  }
  const Gathering& gathering = group.gathering;
  if (std::any_of(gathering.waiters.begin(), gathering.waiters.end(), passed)) {
    std::vector<int> late;
    for (int rank = 0; rank < size_; ++rank) {
      if (!gathering.parts[static_cast<std::size_t>(rank)]) {
        late.push_back(rank);
      }
    }
    Break(group, Missing(group,
                         "did not come to " + gathering.what + " " +
                             std::to_string(gathering.sequence) + " of " + group.name + " in time",
                         late));
  }
  std::erase_if(group.getting, [&](const Getting& wish) {
    if (!wish.waiter.deadline.Passed()) {
      return false;
    }
    if (wish.rank == kAnyRank) {
      Answer(wish.waiter.peer, {ErrorCode::kTimedOut, "no rank is known to be lost", ""});
      return true;
    }
    Answer(wish.waiter.peer,
           Missing(group, "did not give its " + wish.key + " in time", {wish.rank}));
    return true;
  });
}

void Groups::Expire() {
  for (auto& [name, group] : groups_) {
    ExpireGroup(group);
  }
}

std::chrono::milliseconds Groups::UntilNextDeadline() const {
  std::chrono::milliseconds next{1'000'000};
  const auto look = [&](const Waiter& waiter) {
    next = std::min(next, waiter.deadline.Remaining());
  };
  for (const auto& [name, group] : groups_) {
    std::for_each(group.joining.begin(), group.joining.end(), look);
    std::for_each(group.gathering.waiters.begin(), group.gathering.waiters.end(), look);
    for (const Getting& wish : group.getting) {
      look(wish.waiter);
    }
  }
  return next;
}

}  // namespace dlc::rendezvous
