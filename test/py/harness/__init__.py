"""The checks that tests share: numeric comparisons, engines, and access to the stages of the compiler."""
