//! Counters over HTTP: `POST /counters/NAME` adds one, `GET /counters/NAME` reads.

mod counters;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use phalanx::CallError;
use serde::Serialize;

pub use crate::counters::{Counters, Failure};

/// The application.
pub fn router(counters: Counters) -> Router {
    Router::new()
        .route("/counters/{name}", get(read).post(add))
        .route("/health", get(|| async { "ok\n" }))
        .with_state(counters)
}

/// The body of a response.
#[derive(Serialize)]
struct Counter {
    name: String,
    count: u64,
}

async fn read(
    State(counters): State<Counters>,
    Path(name): Path<String>,
) -> Result<Json<Counter>, Failure> {
    let count = counters.read(&name).await?;
    Ok(Json(Counter { name, count }))
}

async fn add(
    State(counters): State<Counters>,
    Path(name): Path<String>,
) -> Result<Json<Counter>, Failure> {
    let count = counters.add(&name).await?;
    Ok(Json(Counter { name, count }))
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::TooLong => StatusCode::BAD_REQUEST,
            Self::TooMany => StatusCode::INSUFFICIENT_STORAGE,
            Self::Call(CallError::Panicked { .. }) => StatusCode::INTERNAL_SERVER_ERROR,
            // The stage is full, or the program ends.
            Self::Call(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, format!("{self}\n")).into_response()
    }
}
