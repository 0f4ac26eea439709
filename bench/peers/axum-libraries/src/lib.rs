//! Tests of libraries on tokio within handlers on Phalanx; see `tests/libraries.rs`.
