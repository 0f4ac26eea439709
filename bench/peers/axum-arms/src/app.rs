//! The application, the same for all arms.

use std::future::Future;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

/// The table, and its rows for [`SELECT`].
pub(crate) const TABLE: [&str; 4] = [
    "CREATE TABLE orders (id bigserial PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL)",
    "INSERT INTO orders (customer, cents) SELECT 'customer ' || i, i FROM generate_series(1, 10000) AS i",
    "VACUUM ANALYZE orders",
    "CHECKPOINT",
];
pub(crate) const SELECT: &str = "SELECT id, customer, cents FROM orders WHERE id = $1";
pub(crate) const INSERT: &str = "INSERT INTO orders (customer, cents) VALUES ($1, $2) RETURNING id";

/// The answer of `/json`, as in the JSON test of TechEmpower.
#[derive(Serialize)]
struct Message {
    message: &'static str,
}

/// A row of the table.
#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) customer: String,
    pub(crate) cents: i64,
}

/// The answer of `/insert`.
#[derive(Serialize)]
struct Placed {
    id: i64,
}

/// A database with the table.
pub(crate) trait Orders: Clone + Send + Sync + 'static {
    /// The row of this number.
    fn find(&self, id: i64) -> impl Future<Output = Result<Order, String>> + Send;

    /// Adds a row, and returns its number when it is durable.
    fn place(&self, customer: &str, cents: i64)
    -> impl Future<Output = Result<i64, String>> + Send;
}

/// The routes that need no database.
pub(crate) fn plain() -> Router {
    Router::new().route("/json", get(|| async { Json(Message { message: "Hello, World!" }) }))
}

/// All routes. The generator of the load sends GET only, so a row is added by GET.
pub(crate) fn with<O: Orders>(orders: O) -> Router {
    let routes = Router::new()
        .route("/select/{id}", get(select::<O>))
        .route("/insert", get(insert::<O>))
        .with_state(orders);
    plain().merge(routes)
}

type Answer<T> = Result<Json<T>, (StatusCode, String)>;

/// The database may have executed the statement or not.
fn failed(reason: String) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, reason)
}

async fn select<O: Orders>(State(orders): State<O>, Path(id): Path<i64>) -> Answer<Order> {
    Ok(Json(orders.find(id).await.map_err(failed)?))
}

async fn insert<O: Orders>(State(orders): State<O>) -> Answer<Placed> {
    let id = orders.place("anna", 1250).await.map_err(failed)?;
    Ok(Json(Placed { id }))
}
