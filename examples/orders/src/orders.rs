//! The orders, and the interface of the databases that store them.

use std::future::Future;

use serde::{Deserialize, Serialize};

/// The table. The constraint is one that a client can violate.
pub(crate) const TABLE: &str = "CREATE TABLE orders (id bigserial PRIMARY KEY, customer text NOT NULL, \
                                cents bigint NOT NULL CHECK (cents > 0))";

pub(crate) const INSERT: &str = "INSERT INTO orders (customer, cents) VALUES ($1, $2) RETURNING id";

pub(crate) const FIND: &str = "SELECT customer, cents FROM orders WHERE id = $1";

/// An order.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) customer: String,
    pub(crate) cents: i64,
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The order violates a constraint, or has a value that the table cannot store.
    Invalid(String),
    /// The database did not execute the statement. It may be repeated.
    Unavailable(String),
    /// The database may have executed the statement or not.
    Unknown(String),
}

impl Failure {
    /// A failure that the database has reported with this SQLSTATE code.
    pub(crate) fn reported(code: &str, message: &str) -> Self {
        match code.get(..2) {
            // A value out of range or of a wrong form; an integrity constraint.
            Some("22" | "23") => Self::Invalid(message.to_owned()),
            _ => Self::Unavailable(format!("{code}: {message}")),
        }
    }
}

/// A database of orders.
pub(crate) trait Orders: Clone + Send + Sync + 'static {
    /// Stores an order. Returns its number when it is durable.
    fn place(&self, order: Order) -> impl Future<Output = Result<i64, Failure>> + Send;

    /// The order of this number.
    fn find(&self, id: i64) -> impl Future<Output = Result<Option<Order>, Failure>> + Send;
}
