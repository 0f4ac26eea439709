//! PostgreSQL as a stage of a Phalanx program.
//!
//! Operations execute [`Statement`]s on a [`Database`]. The queries of one cohort are sent with one write, and those that
//! permit it ([`Statement::batchable`]) are one transaction: one commit, and one flush of the server's log, for all of
//! them. A failing query affects no other one.
//!
//! | file | idea |
//! |---|---|
//! | `database.rs` | the handle; the stages |
//! | `statement.rs` | statements, and the encoding of their parameters |
//! | `rows.rs`, `row_bytes.rs` | results |
//! | `config.rs` | the server, the user, the bounds |
//! | `queue.rs` | queries that wait for a connection |
//! | `pool.rs` | the connections of a processor; attempts to connect |
//! | `connection/` | one connection: `startup`, then `session`, which prepares statements and exchanges batches |
//! | `error.rs`, `database_error.rs` | errors |
//!
//! The feature `tls`, on by default, encrypts connections ([`Config::tls`]).

#![forbid(unsafe_code)]

mod config;
mod connection;
mod database;
mod database_error;
#[cfg(doctest)]
mod docs;
mod error;
mod pool;
mod queue;
mod row_bytes;
mod rows;
mod statement;

#[cfg(feature = "tls")]
pub use phalanx_tls as tls;

pub use config::Config;
pub use database::Database;
pub use database_error::DatabaseError;
pub use error::Error;
#[doc(no_inline)]
pub use postgres_types::{FromSql, ToSql, Type};
pub use rows::{Column, ColumnError, ColumnIndex, Iter, Row, Rows};
pub use statement::Statement;
