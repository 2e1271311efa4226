// ARPA files, read in one pass over their bytes. Words are hashed by their bytes; numbers are exact where they have up to
// 19 digits and a small exponent, as all that tools write have.
#include <cmath>
#include <cstring>

#include "ctc_ngram.h"

namespace {

constexpr double kLargest = 1e30;  // what float and sums over a sentence hold with room to spare

struct Field {
  const char *begin, *end;
  int64_t size() const { return end - begin; }
};

bool is_separator(char c) { return c == ' ' || c == '\t'; }

// The lines of a text, one after the other.
class Lines {
 public:
  Lines(const char *text, int64_t bytes, ctc_arpa_place *place) : text_(text), end_(text + bytes), place_(place) {}

  // The next line without its end; false where there is none.
  bool next(Field *line) {
    const char *begin = text_ + place_->at;
    if (begin >= end_) return false;
    const void *found = std::memchr(begin, '\n', static_cast<size_t>(end_ - begin));
    const char *end = found ? static_cast<const char *>(found) : end_;
    place_->at = end - text_ + 1;
    ++place_->line;
    if (end > begin && end[-1] == '\r') --end;
    *line = {begin, end};
    return true;
  }

 private:
  const char *const text_, *const end_;
  ctc_arpa_place *const place_;
};

// The next field of a line, empty at its end.
Field take_field(Field *line) {
  while (line->begin < line->end && is_separator(*line->begin)) ++line->begin;
  const char *begin = line->begin;
  while (line->begin < line->end && !is_separator(*line->begin)) ++line->begin;
  return {begin, line->begin};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What is behind a number's sign: digits, point, digits, exponent.
bool read_unsigned(Field text, double *value) {
  const char *c = text.begin;
  uint64_t mantissa = 0;
  int64_t exponent = 0;
  int digits = 0;
  bool has_digits = false;
  for (bool is_fraction = false; c < text.end && (is_digit(*c) || (*c == '.' && !is_fraction)); ++c) {
    if (*c == '.') {
      is_fraction = true;
      continue;
    }
    has_digits = true;
    if (digits < 19) {
      mantissa = 10 * mantissa + static_cast<uint64_t>(*c - '0');
      digits += mantissa > 0;
      exponent -= is_fraction;
    } else {
      exponent += !is_fraction;
    }
  }
  if (!has_digits) return false;
  if (c < text.end && (*c == 'e' || *c == 'E')) {
    const bool is_negative = ++c < text.end && *c == '-';
    if (c < text.end && (*c == '-' || *c == '+')) ++c;
    int64_t written = 0;
    if (c == text.end) return false;
    for (; c < text.end && is_digit(*c); ++c) written = written < 100000 ? 10 * written + (*c - '0') : written;
    exponent += is_negative ? -written : written;
  }
  if (c != text.end) return false;
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const double digits_value = static_cast<double>(mantissa);
  if (exponent >= -22 && exponent <= 22)
    *value = exponent < 0 ? digits_value / powers[-exponent] : digits_value * powers[exponent];
  else
    *value = mantissa == 0 ? 0 : digits_value * std::pow(10.0, static_cast<double>(exponent));
  return true;
}

bool read_number(Field text, double *value) {
  const bool has_sign = text.begin < text.end && (*text.begin == '-' || *text.begin == '+');
  const bool is_negative = has_sign && *text.begin == '-';
  if (!read_unsigned({text.begin + has_sign, text.end}, value)) return false;
  if (is_negative) *value = -*value;
  return std::fabs(*value) <= kLargest;
}

uint64_t hash_of(Field word) {  // FNV-1a
  uint64_t hash = 14695981039346656037ull;
  for (const char *c = word.begin; c < word.end; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211ull;
  return hash ^ hash >> 29;
}

// The slot of a word, or the free one where it would be.
int32_t *slot_of(const char *text, const ctc_arpa_words &words, Field word) {
  const uint64_t mask = static_cast<uint64_t>(words.slots - 1);
  for (uint64_t at = hash_of(word) & mask;; at = (at + 1) & mask) {
    const int32_t number = words.table[at];
    if (number < 0) return words.table + at;
    if (words.lengths[number] == word.size() &&
        std::memcmp(text + words.starts[number], word.begin, static_cast<size_t>(word.size())) == 0)
      return words.table + at;
  }
}

int read_header(Lines *lines, int32_t order) {
  Field line, probe;
  do {
    if (!lines->next(&line)) return CTC_ARPA_HEADER;
    probe = line;
  } while (take_field(&probe).size() == 0);
  while (line.end > line.begin && is_separator(line.end[-1])) --line.end;
  if (line.size() < 9 || *line.begin != '\\' || std::memcmp(line.end - 7, "-grams:", 7) != 0) return CTC_ARPA_HEADER;
  int32_t found = 0;
  for (const char *c = line.begin + 1; c < line.end - 7; ++c) {
    if (!is_digit(*c) || found > 100000) return CTC_ARPA_HEADER;
    found = 10 * found + (*c - '0');
  }
  return found == order ? CTC_ARPA_SUCCESS : CTC_ARPA_HEADER;
}

int read_ngram(const char *text, Field line, int32_t order, ctc_arpa_words *words, int32_t *ngram, double *log10_prob,
               double *log10_backoff) {
  const Field prob = take_field(&line);
  if (prob.size() == 0) return CTC_ARPA_FIELDS;
  if (!read_number(prob, log10_prob)) return CTC_ARPA_NUMBER;
  if (*log10_prob > 0) return CTC_ARPA_POSITIVE;
  for (int32_t i = 0; i < order; ++i) {
    const Field word = take_field(&line);
    if (word.size() == 0) return CTC_ARPA_FIELDS;
    int32_t *const slot = slot_of(text, *words, word);
    if (order == 1) {
      if (*slot >= 0) return CTC_ARPA_TWICE;
      words->starts[words->words] = word.begin - text;
      words->lengths[words->words] = static_cast<int32_t>(word.size());
      *slot = words->words++;
    } else if (*slot < 0) {
      return CTC_ARPA_WORD;
    }
    ngram[i] = *slot;
  }
  const Field backoff = take_field(&line);
  *log10_backoff = 0;
  if (backoff.size() > 0 && !read_number(backoff, log10_backoff)) return CTC_ARPA_NUMBER;
  return take_field(&line).size() == 0 ? CTC_ARPA_SUCCESS : CTC_ARPA_FIELDS;
}

}  // namespace

extern "C" int ctc_arpa_level(const char *text, int64_t bytes, int32_t order, int64_t count, ctc_arpa_words *words,
                              ctc_arpa_place *place, int32_t *ngrams, double *log10_prob, double *log10_backoff) {
  Lines lines(text, bytes, place);
  place->row = 0;
  const int status = read_header(&lines, order);
  if (status != CTC_ARPA_SUCCESS) return status;
  for (; place->row < count; ++place->row) {
    Field line;
    if (order == 1 && words->words == words->capacity) return CTC_ARPA_FIELDS;
    if (!lines.next(&line)) return CTC_ARPA_FIELDS;
    const int found = read_ngram(text, line, order, words, ngrams + place->row * order, log10_prob + place->row,
                                 log10_backoff + place->row);
    if (found != CTC_ARPA_SUCCESS) return found;
  }
  return CTC_ARPA_SUCCESS;
}
