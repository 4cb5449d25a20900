#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/node/rendezvous/protocol.h"
#include "probes/observations/deadline.h"

namespace dlc::rendezvous {

/// A connection, by a number that is never used twice.
using PeerId = std::int64_t;

/// The group that the ranks' own processes form; each experiment's processes form one more. Who
/// leaves this one is lost to all.
inline constexpr std::string_view kRunGroup = "run";

/// Who is here, who waits for whom, and what everybody is told. No sockets: requests go in, frames
/// come out.
class Groups {
 public:
  explicit Groups(int size) : size_(size) {}

  void Join(PeerId peer, const JoinRequest& request, const std::string& address);
  /// `what` names the call ("barrier", "all-gather"): ranks that differ in it are told so.
  void Gather(PeerId peer, std::uint32_t sequence, std::string_view what, std::string_view bytes,
              Deadline deadline);
  void Put(PeerId peer, std::string_view key, std::string_view bytes);
  /// Of kAnyRank: word of the first rank that was lost or has told why it stopped.
  void Get(PeerId peer, int rank, std::string_view key, Deadline deadline);
  /// The connection is gone, after a goodbye or without one.
  void Leave(PeerId peer, bool said_goodbye);
  /// Somebody who is no rank ("a peer from 10.0.0.7:4242 did not know the secret"): told to those
  /// who then wait in vain.
  void NoteStranger(const std::string& what);

  /// Gives up on what is overdue.
  void Expire();
  /// Until the next thing is overdue.
  std::chrono::milliseconds UntilNextDeadline() const;

  struct Reply {
    PeerId to;
    std::string frame;
  };
  std::vector<Reply> TakeReplies() { return std::exchange(replies_, {}); }

 private:
  struct Member {
    PeerId peer = 0;  ///< 0: never arrived
    std::string host;
    std::string address;
    bool left = false;
    bool said_goodbye = false;
    std::map<std::string, std::string, std::less<>> values;
  };
  struct Waiter {
    PeerId peer;
    Deadline deadline;
  };
  struct Gathering {
    std::uint32_t sequence = 0;
    std::string what;
    std::vector<std::optional<std::string>> parts;
    std::vector<Waiter> waiters;
  };
  struct Getting {
    Waiter waiter;
    int rank;
    std::string key;
  };
  struct Group {
    std::string name;
    std::vector<Member> members;
    std::vector<Waiter> joining;
    Gathering gathering;
    std::vector<Getting> getting;
    std::optional<Error> broken;
    bool complete = false;
  };
  struct Place {
    Group* group = nullptr;
    int rank = 0;
  };

  void Answer(PeerId peer, const Error& error);
  void Break(Group& group, const Error& error);
  void BreakIfLost(Group& group);
  void CompleteJoin(Group& group);
  void CompleteGather(Group& group);
  bool TellOfLost(const Group& group, PeerId peer);
  void AnswerGets(Group& group);
  void ExpireGroup(Group& group);
  Error Missing(const Group& group, const std::string& what_they_miss,
                const std::vector<int>& ranks) const;
  std::string RankText(const Group& group, int rank) const;
  Place* PlaceOf(PeerId peer);

  int size_;
  std::map<std::string, Group, std::less<>> groups_;
  std::map<PeerId, Place> places_;
  std::vector<std::string> strangers_;
  std::vector<Reply> replies_;
};

}  // namespace dlc::rendezvous
