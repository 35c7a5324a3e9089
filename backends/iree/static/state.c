// The state as a safetensors file: the length of a JSON text in 8 bytes, the text, and the arrays.
// {"__metadata__": {"tiduc.version": "1", "tiduc.model": "...", "tiduc.crc32": "..."}, "w": {"dtype": "F32", "shape": [3, 2], ...}, ...}
enum { TIDUC_NO_FILE = 3, TIDUC_OTHER_MODEL = 4, TIDUC_DAMAGED = 5 };

static uint32_t tiduc_crc32(uint32_t crc, const unsigned char *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
  }
  return crc;
}

typedef struct { const char *at, *end; } tiduc_text;

static void tiduc_skip(tiduc_text *text) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\t' || *text->at == '\r'))
    text->at++;
}

// Skips blanks, then skips the character `wanted`. Returns false if another character comes next.
static bool tiduc_take(tiduc_text *text, char wanted) {
  tiduc_skip(text);
  if (text->at >= text->end || *text->at != wanted) return false;
  text->at++;
  return true;
}

// Reads a string, without decoding its escape sequences.
static bool tiduc_string(tiduc_text *text, tiduc_text *result) {
  if (!tiduc_take(text, '"')) return false;
  result->at = text->at;
  while (text->at < text->end && *text->at != '"') text->at += *text->at == '\\' ? 2 : 1;
  if (text->at >= text->end) return false;
  result->end = text->at++;
  return true;
}

static bool tiduc_equal(const tiduc_text *text, const char *wanted) {
  size_t size = strlen(wanted);
  return (size_t)(text->end - text->at) == size && !memcmp(text->at, wanted, size);
}

// Reads a list of at most `most` numbers.
static bool tiduc_numbers(tiduc_text *text, uint64_t *numbers, int most, int *count) {
  *count = 0;
  if (!tiduc_take(text, '[')) return false;
  if (tiduc_take(text, ']')) return true;
  do {
    uint64_t number = 0;
    tiduc_skip(text);
    const char *first = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
      if (number > UINT64_MAX / 10 - 1) return false;
      number = 10 * number + (uint64_t)(*text->at - '0');
    }
    if (first == text->at || *count == most) return false;
    numbers[(*count)++] = number;
  } while (tiduc_take(text, ','));
  return tiduc_take(text, ']');
}

// Reads the entries of `__metadata__`, and checks the version and the model. Without a checksum, `checksum` is unchanged.
static bool tiduc_metadata(tiduc_text *text, int64_t *checksum) {
  if (!tiduc_take(text, '{')) return false;
  if (tiduc_take(text, '}')) return true;
  do {
    tiduc_text key, value;
    if (!tiduc_string(text, &key) || !tiduc_take(text, ':') || !tiduc_string(text, &value)) return false;
    if (tiduc_equal(&key, "tiduc.version") && !tiduc_equal(&value, "1")) return false;
    if (tiduc_equal(&key, "tiduc.model") && sizeof TIDUC_MODEL > 1 && !tiduc_equal(&value, TIDUC_MODEL)) return false;
    if (!tiduc_equal(&key, "tiduc.crc32")) continue;
    *checksum = 0;
    for (const char *at = value.at; at < value.end; at++) {
      if (*at < '0' || *at > '9' || *checksum > UINT32_MAX) return false;
      *checksum = 10 * *checksum + (*at - '0');
    }
  } while (tiduc_take(text, ','));
  return tiduc_take(text, '}');
}

// Reads the place of an array in the file, and checks its type, shape and size.
static bool tiduc_entry(tiduc_text *text, const TIDUC_ARRAY *array, uint64_t place[2]) {
  bool fits = tiduc_take(text, '{'), has_place = false, has_type = false, has_shape = false;
  do {
    tiduc_text key, value;
    uint64_t sizes[8];
    int count;
    if (!fits || !tiduc_string(text, &key) || !tiduc_take(text, ':')) return false;
    if (tiduc_equal(&key, "dtype")) {
      fits = has_type = tiduc_string(text, &value) && tiduc_equal(&value, array->dtype);
    } else if (tiduc_equal(&key, "shape")) {
      fits = has_shape = tiduc_numbers(text, sizes, 8, &count) && count == array->rank;
      for (int i = 0; fits && i < count; i++) fits = sizes[i] == (uint64_t)array->shape[i];
    } else if (tiduc_equal(&key, "data_offsets")) {
      fits = has_place = tiduc_numbers(text, place, 2, &count) && count == 2 && place[0] <= place[1] &&
                         place[1] - place[0] == array->size;
    } else {
      return false;
    }
  } while (tiduc_take(text, ','));
  return fits && has_type && has_shape && has_place && tiduc_take(text, '}');
}

// Finds all arrays in the JSON text. `places` gets their places among the `size` bytes that follow the text.
static bool tiduc_places(tiduc_text *text, uint64_t places[][2], uint64_t size, int64_t *checksum) {
  int found = 0;
  if (!tiduc_take(text, '{')) return false;
  for (int i = 0; i < TIDUC_ARRAYS; i++) places[i][1] = UINT64_MAX;
  do {
    tiduc_text key;
    if (!tiduc_string(text, &key) || !tiduc_take(text, ':')) return false;
    if (tiduc_equal(&key, "__metadata__")) {
      if (!tiduc_metadata(text, checksum)) return false;
      continue;
    }
    int i = 0;
    while (i < TIDUC_ARRAYS && !tiduc_equal(&key, TIDUC_TABLE[i].spelled)) i++;
    if (i == TIDUC_ARRAYS || places[i][1] != UINT64_MAX || !tiduc_entry(text, &TIDUC_TABLE[i], places[i])) return false;
    if (places[i][1] > size) return false;
    found++;
  } while (tiduc_take(text, ','));
  return found == TIDUC_ARRAYS && tiduc_take(text, '}');
}

int TIDUC_READ(TIDUC_STATE *state, const void *data, size_t size) {
  const unsigned char *bytes = (const unsigned char *)data;
  uint64_t length = 0, places[TIDUC_ARRAYS][2];
  int64_t checksum = -1;
  uint32_t crc = UINT32_MAX;
  if (size < 8) return TIDUC_OTHER_MODEL;
  for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
  if (length > size - 8) return TIDUC_OTHER_MODEL;
  tiduc_text text = {(const char *)bytes + 8, (const char *)bytes + 8 + length};
  bytes += 8 + length;
  if (!tiduc_places(&text, places, size - 8 - length, &checksum)) return TIDUC_OTHER_MODEL;
  for (int i = 0; i < TIDUC_ARRAYS; i++) crc = tiduc_crc32(crc, bytes + places[i][0], TIDUC_TABLE[i].size);
  if (checksum >= 0 && (uint32_t)checksum != ~crc) return TIDUC_DAMAGED;
  for (int i = 0; i < TIDUC_ARRAYS; i++)
    memcpy((unsigned char *)state + TIDUC_TABLE[i].offset, bytes + places[i][0], TIDUC_TABLE[i].size);
  return 0;
}

#ifndef TIDUC_NO_FILES
#include <stdio.h>
#endif

// Where a file's bytes go: to `file`, or to the `size` bytes at `data` as long as they fit. `count` counts all bytes.
typedef struct {
  unsigned char *data;
  size_t size, count;
#ifndef TIDUC_NO_FILES
  FILE *file;
#endif
} tiduc_sink;

static void tiduc_put(tiduc_sink *sink, const void *data, size_t size) {
#ifndef TIDUC_NO_FILES
  if (sink->file) (void)fwrite(data, 1, size, sink->file);
#endif
  if (sink->data && size <= sink->size - sink->count) memcpy(sink->data + sink->count, data, size);
  sink->count += size;
}

static void tiduc_put_text(tiduc_sink *sink, const char *text) { tiduc_put(sink, text, strlen(text)); }

// Writes a number with at least `least` digits. The C library of a microcontroller may print no 64-bit numbers.
static void tiduc_put_number(tiduc_sink *sink, uint64_t number, int least) {
  char digits[20];
  int first = 20;
  do {
    digits[--first] = (char)('0' + number % 10);
    number /= 10;
  } while (number || 20 - first < least);
  tiduc_put(sink, digits + first, (size_t)(20 - first));
}

// Writes the JSON text.
static void tiduc_describe(tiduc_sink *sink, uint32_t crc) {
  uint64_t at = 0;
  tiduc_put_text(sink, "{\"__metadata__\":{\"tiduc.version\":\"1\",\"tiduc.crc32\":\"");
  tiduc_put_number(sink, crc, 10);
  tiduc_put_text(sink, "\",\"tiduc.model\":\"" TIDUC_MODEL "\"}");
  for (int i = 0; i < TIDUC_ARRAYS; i++) {
    const TIDUC_ARRAY *array = &TIDUC_TABLE[i];
    tiduc_put_text(sink, ",\"");
    tiduc_put_text(sink, array->spelled);
    tiduc_put_text(sink, "\":{\"dtype\":\"");
    tiduc_put_text(sink, array->dtype);
    tiduc_put_text(sink, "\",\"shape\":[");
    for (int j = 0; j < array->rank; j++) {
      if (j) tiduc_put_text(sink, ",");
      tiduc_put_number(sink, (uint64_t)array->shape[j], 1);
    }
    tiduc_put_text(sink, "],\"data_offsets\":[");
    tiduc_put_number(sink, at, 1);
    tiduc_put_text(sink, ",");
    tiduc_put_number(sink, at += array->size, 1);
    tiduc_put_text(sink, "]}");
  }
  tiduc_put_text(sink, "}");
}

// Counts the bytes of the JSON text, without the blanks after it. All checksums have ten digits.
static size_t tiduc_text_size(void) {
  tiduc_sink counter = {0};
  tiduc_describe(&counter, 0);
  return counter.count;
}

// The length of a text of `size` bytes and the blanks after it.
static size_t tiduc_padded(size_t size) { return (size + 7) / 8 * 8; }

// Writes the whole file. `size` is that of the JSON text, without the blanks.
static void tiduc_write(tiduc_sink *sink, const TIDUC_STATE *state, size_t size) {
  const unsigned char *bytes = (const unsigned char *)state;
  unsigned char head[8];
  uint32_t crc = UINT32_MAX;
  for (int i = 0; i < TIDUC_ARRAYS; i++) crc = tiduc_crc32(crc, bytes + TIDUC_TABLE[i].offset, TIDUC_TABLE[i].size);
  for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)tiduc_padded(size) >> 8 * i);
  tiduc_put(sink, head, 8);
  tiduc_describe(sink, ~crc);
  tiduc_put(sink, "        ", tiduc_padded(size) - size);
  for (int i = 0; i < TIDUC_ARRAYS; i++) tiduc_put(sink, bytes + TIDUC_TABLE[i].offset, TIDUC_TABLE[i].size);
}

size_t TIDUC_WRITE(const TIDUC_STATE *state, void *data, size_t size) {
  const size_t text = tiduc_text_size();
  size_t total = 8 + tiduc_padded(text);
  for (int i = 0; i < TIDUC_ARRAYS; i++) total += TIDUC_TABLE[i].size;
  if (total > size || !data) return total;
  tiduc_sink sink = {.data = (unsigned char *)data, .size = size};
  tiduc_write(&sink, state, text);
  return sink.count;
}

#ifndef TIDUC_NO_FILES
int TIDUC_LOAD(TIDUC_STATE *state, const char *path) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (!file) return TIDUC_NO_FILE;
  if (!fseek(file, 0, SEEK_END)) size = ftell(file);
  void *data = size < 0 ? NULL : TIDUC_MALLOC((size_t)size + 1);
  int status = size < 0 ? TIDUC_NO_FILE : data ? 0 : TIDUC_NO_MEMORY;
  if (!status && (fseek(file, 0, SEEK_SET) || fread(data, 1, (size_t)size, file) != (size_t)size)) status = TIDUC_NO_FILE;
  fclose(file);
  if (!status) status = TIDUC_READ(state, data, (size_t)size);
  if (data) TIDUC_FREE(data);
  return status;
}

int TIDUC_SAVE(const TIDUC_STATE *state, const char *path) {
  size_t name = strlen(path);
  char *part = (char *)TIDUC_MALLOC(name + 6);
  if (!part) return TIDUC_NO_MEMORY;
  memcpy(part, path, name);
  memcpy(part + name, ".part", 6);
  FILE *file = fopen(part, "wb");
  bool fine = file != NULL;
  if (file) {
    tiduc_sink sink = {.file = file};
    tiduc_write(&sink, state, tiduc_text_size());
    fine = !ferror(file);
    fine = !fclose(file) && fine;
    fine = fine && !rename(part, path);
    if (!fine) remove(part);
  }
  TIDUC_FREE(part);
  return fine ? 0 : TIDUC_NO_FILE;
}
#endif
