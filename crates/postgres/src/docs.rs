//! Compiles the examples of the page in `docs/` with the tests.

/// PostgreSQL.
#[doc = include_str!("../../../docs/postgres.md")]
struct Postgres;
