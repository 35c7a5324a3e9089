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
#include <inttypes.h>
#include <stdio.h>

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

// Writes the JSON text, unless the file is NULL. Returns the number of characters of the text.
static int tiduc_describe(FILE *file, uint32_t crc) {
  char line[96];
  int count = 0, size;
  uint64_t at = 0;
#define TIDUC_PUT(...) \
  (size = snprintf(line, sizeof line, __VA_ARGS__), count += size, file ? (void)fwrite(line, 1, (size_t)size, file) : (void)0)
  TIDUC_PUT("{\"__metadata__\":{\"tiduc.version\":\"1\",\"tiduc.crc32\":\"%010" PRIu32 "\",\"tiduc.model\":\"", crc);
  count += (int)strlen(TIDUC_MODEL);
  if (file) fputs(TIDUC_MODEL, file);
  TIDUC_PUT("\"}");
  for (int i = 0; i < TIDUC_ARRAYS; i++) {
    const TIDUC_ARRAY *array = &TIDUC_TABLE[i];
    TIDUC_PUT(",\"");
    count += (int)strlen(array->spelled);
    if (file) fputs(array->spelled, file);
    TIDUC_PUT("\":{\"dtype\":\"%s\",\"shape\":[", array->dtype);
    for (int j = 0; j < array->rank; j++) TIDUC_PUT("%s%" PRId64, j ? "," : "", array->shape[j]);
    TIDUC_PUT("],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + array->size);
    at += array->size;
  }
  TIDUC_PUT("}");
  return count;
}

int TIDUC_SAVE(const TIDUC_STATE *state, const char *path) {
  uint32_t crc = UINT32_MAX;
  for (int i = 0; i < TIDUC_ARRAYS; i++)
    crc = tiduc_crc32(crc, (const unsigned char *)state + TIDUC_TABLE[i].offset, TIDUC_TABLE[i].size);
  size_t name = strlen(path);
  char *part = (char *)TIDUC_MALLOC(name + 6);
  if (!part) return TIDUC_NO_MEMORY;
  memcpy(part, path, name);
  memcpy(part + name, ".part", 6);
  FILE *file = fopen(part, "wb");
  bool fine = file != NULL;
  if (file) {
    unsigned char head[8];
    uint64_t length = ((uint64_t)tiduc_describe(NULL, ~crc) + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) head[i] = (unsigned char)(length >> 8 * i);
    fine = fwrite(head, 1, 8, file) == 8;
    for (uint64_t written = (uint64_t)tiduc_describe(file, ~crc); written < length; written++) fputc(' ', file);
    for (int i = 0; i < TIDUC_ARRAYS; i++)
      fine = fwrite((const unsigned char *)state + TIDUC_TABLE[i].offset, 1, TIDUC_TABLE[i].size, file) ==
                 TIDUC_TABLE[i].size && fine;
    fine = !ferror(file) && fine;
    fine = !fclose(file) && fine;
    fine = fine && !rename(part, path);
    if (!fine) remove(part);
  }
  TIDUC_FREE(part);
  return fine ? 0 : TIDUC_NO_FILE;
}
#endif
