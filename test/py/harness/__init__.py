"""Modules that several tests share. They compare arrays, run programs, and call stages of the compiler."""
