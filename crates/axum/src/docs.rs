//! Pages whose code runs as doctests.

/// Applications of axum.
#[doc = include_str!("../../../docs/axum.md")]
struct Axum;
