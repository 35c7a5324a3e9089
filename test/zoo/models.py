"""All models of the zoo."""

import language
import science
import vision
from entries import Entry

ENTRIES: list[Entry] = sorted(
    [*vision.ENTRIES, *language.ENTRIES, *science.ENTRIES], key=lambda entry: (entry.size != "small", entry.family)
)
