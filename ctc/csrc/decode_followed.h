// What other searches would keep, followed beside our own: those whose hypotheses are states, a prefix together with
// whether its paths end in blank, of which the best `beam` survive a frame. One rule takes the best path to a state, the
// other the sum over all paths. What either keeps is in the beam, so that no such search finds what ours does not have.
//
// Their log-probabilities are without the external score, which belongs to the prefix. A state that a rule has dropped is
// -inf to it, and may be reached again.
#ifndef CTC_DECODE_FOLLOWED_H
#define CTC_DECODE_FOLLOWED_H

#include "decode_candidates.h"

namespace ctc_decode {

enum Rule { kBestPath, kAllPaths, kFollowedRules };

// Of a prefix, by rule.
struct Followed {
  double blank[kFollowedRules], nonblank[kFollowedRules];

  Followed() {
    std::fill_n(blank, int{kFollowedRules}, kMinusInfinity);
    std::fill_n(nonblank, int{kFollowedRules}, kMinusInfinity);
  }
  void begin() { std::fill_n(blank, int{kFollowedRules}, 0.0); }
};

struct FollowedWork {
  Candidate *candidates[kFollowedRules] = {}, *joined = nullptr;
  double *blank[kFollowedRules] = {}, *nonblank[kFollowedRules] = {};  // [rows] of what becomes of the prefixes
  double *either[kFollowedRules] = {}, *arrival = nullptr;             // [rows] of both before the frame; see `Search`
  int32_t *place = nullptr, *longer = nullptr, *next_longer = nullptr; // [rows] where a candidate is in `joined`

  void take(Arena *arena, int64_t beam) {
    const int64_t most = beam * (1 + kFollowedRules), rows = most + Vector<double>::lanes;
    for (int rule = 0; rule < kFollowedRules; ++rule) {
      candidates[rule] = arena->take<Candidate>(Candidates::storage(beam));
      for (double **array : {&blank[rule], &nonblank[rule], &either[rule]}) *array = arena->take<double>(rows);
    }
    joined = arena->take<Candidate>(most);
    arrival = arena->take<double>(rows);
    for (int32_t **array : {&place, &longer, &next_longer}) *array = arena->take<int32_t>(most);
  }
};

class FollowedStates {
 public:
  FollowedStates(const FollowedWork &work, const ctc_beam_options &options, const double *log_probs)
      : work_(work), log_probs_(log_probs),
        candidates_{{work.candidates[0], options.beam, options.beam_log_prob, log_probs},
                    {work.candidates[1], options.beam, options.beam_log_prob, log_probs}} {}

  // How much the log-probability of a label may fall short of what any rule needs, on its best prefix and with `bound`.
  double missing(double bound) const {
    return std::min(candidates_[0].threshold() - (best_either_[0] + bound),
                    candidates_[1].threshold() - (best_either_[1] + bound));
  }

  // Whether no rule can keep the prefix in `slot` and one more label of that log-probability.
  bool is_hopeless(int32_t slot, double log_prob, double external) const {
    return work_.either[0][slot] + log_prob + external < candidates_[0].threshold() &&
           work_.either[1][slot] + log_prob + external < candidates_[1].threshold();
  }

  // What becomes of the states of all prefixes when no label is added, offered to the rules. `log_add` is that of rows.
  template <typename Prefix, typename LogAdd>
  void continue_prefixes(const Prefix *beam, int32_t size, int32_t blank, double best_label, LogAdd log_add) {
    for (int rule = 0; rule < kFollowedRules; ++rule) {
      double *const either = work_.either[rule], *const held = work_.nonblank[rule], *const arrival = work_.arrival;
      const auto combine = [&](double *a, const double *b) {
        if (rule == kAllPaths) return log_add(a, b, size);
        for (int32_t slot = 0; slot < size; ++slot) a[slot] = std::max(a[slot], b[slot]);
      };
      for (int32_t slot = 0; slot < size; ++slot) {
        either[slot] = beam[slot].followed.blank[rule];
        held[slot] = beam[slot].followed.nonblank[rule];
      }
      combine(either, held);
      best_either_[rule] = kMinusInfinity;
      for (int32_t slot = 0; slot < size; ++slot)
        best_either_[rule] = std::max(best_either_[rule], either[slot] + beam[slot].external);
      for (int32_t slot = 0; slot < size; ++slot) {
        const int32_t shorter = beam[slot].shorter;
        arrival[slot] = shorter == kNone ? kMinusInfinity : before(beam[shorter], shorter, beam[slot].last, rule);
      }
      combine(held, arrival);
      candidates_[rule].start(best_[rule] + best_label, spread_[rule]);
      for (int32_t slot = 0; slot < size; ++slot) {
        work_.blank[rule][slot] = either[slot] + log_probs_[blank];
        if (beam[slot].last != kNone) held[slot] += log_probs_[beam[slot].last];
        candidates_[rule].offer({held[slot] + beam[slot].external, 2 * slot, kNone});
        candidates_[rule].offer({work_.blank[rule][slot] + beam[slot].external, 2 * slot + 1, kNone});
      }
    }
  }

  // A prefix and one more label, which is not in the beam.
  template <typename Prefix>
  void offer(const Prefix &prefix, int32_t slot, int32_t label, double external) {
    for (int rule = 0; rule < kFollowedRules; ++rule)
      candidates_[rule].offer({before(prefix, slot, label, rule) + log_probs_[label] + external, 2 * slot, label});
  }

  // All candidates that survive: the best of our own rule, in their order, and behind them what only others keep.
  const Candidate *join(const Candidate *best, int32_t size, int32_t *count) {
    std::fill_n(work_.place, size, kNone);
    std::fill_n(work_.longer, size, kNone);
    joined_ = 0;
    for (int32_t i = 0; i < *count; ++i) add(best[i]);
    for (int rule = 0; rule < kFollowedRules; ++rule) {
      survivors_[rule] = candidates_[rule].choose(&survivor_count_[rule]);
      best_[rule] = survivor_count_[rule] ? survivors_[rule][0].score : kMinusInfinity;
      spread_[rule] = survivor_count_[rule] ? best_[rule] - survivors_[rule][survivor_count_[rule] - 1].score : 0;
      for (int32_t i = 0; i < survivor_count_[rule]; ++i) {
        const Candidate &state = survivors_[rule][i];
        const Candidate prefix = {state.score, state.slot / 2, state.label};
        if (place_of(prefix) == kNone) add(prefix);
      }
    }
    *count = joined_;
    return work_.joined;
  }

  // Every prefix of the next beam gets what survives of its states.
  template <typename Prefix>
  void hand_on(const Prefix *beam, Prefix *next, int32_t count) const {
    for (int32_t i = 0; i < count; ++i) next[i].followed = Followed();
    for (int rule = 0; rule < kFollowedRules; ++rule)
      for (int32_t i = 0; i < survivor_count_[rule]; ++i) {
        const Candidate &state = survivors_[rule][i];
        const int32_t slot = state.slot / 2, label = state.label;
        Followed &followed = next[place_of({state.score, slot, label})].followed;
        if (label != kNone)
          followed.nonblank[rule] = before(beam[slot], slot, label, rule) + log_probs_[label];
        else if (state.slot % 2)
          followed.blank[rule] = work_.blank[rule][slot];
        else
          followed.nonblank[rule] = work_.nonblank[rule][slot];
      }
  }

 private:
  // Of the states of a prefix after which `label` is one more label, not the last one held on.
  template <typename Prefix>
  double before(const Prefix &prefix, int32_t slot, int32_t label, int rule) const {
    return label == prefix.last ? prefix.followed.blank[rule] : work_.either[rule][slot];
  }

  void add(const Candidate &candidate) {
    if (candidate.label == kNone) {
      work_.place[candidate.slot] = joined_;
    } else {
      work_.next_longer[joined_] = work_.longer[candidate.slot];
      work_.longer[candidate.slot] = joined_;
    }
    work_.joined[joined_++] = candidate;
  }

  int32_t place_of(const Candidate &candidate) const {
    if (candidate.label == kNone) return work_.place[candidate.slot];
    int32_t at = work_.longer[candidate.slot];
    while (at != kNone && work_.joined[at].label != candidate.label) at = work_.next_longer[at];
    return at;
  }

  const FollowedWork &work_;
  const double *log_probs_;
  Candidates candidates_[kFollowedRules];
  const Candidate *survivors_[kFollowedRules] = {};
  int32_t survivor_count_[kFollowedRules] = {}, joined_ = 0;
  double best_[kFollowedRules] = {}, spread_[kFollowedRules] = {};  // of the scores of states before the frame
  double best_either_[kFollowedRules] = {};                         // of the scores of prefixes then
};

}  // namespace ctc_decode
#endif
