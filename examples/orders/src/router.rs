//! The routes, the same on both runtimes.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use phalanx::runtime::report;
use serde::Serialize;

use crate::orders::{Failure, Order, Orders};

/// The answer to a new order.
#[derive(Serialize)]
struct Placed {
    id: i64,
}

pub(crate) fn router<O: Orders>(orders: O) -> Router {
    Router::new()
        .route("/orders", post(place::<O>))
        .route("/orders/{id}", get(find::<O>))
        .with_state(orders)
}

async fn place<O: Orders>(
    State(orders): State<O>,
    Json(order): Json<Order>,
) -> Result<impl IntoResponse, Failure> {
    let id = orders.place(order).await?;
    Ok((StatusCode::CREATED, Json(Placed { id })))
}

async fn find<O: Orders>(
    State(orders): State<O>,
    Path(id): Path<i64>,
) -> Result<Response, Failure> {
    Ok(match orders.find(id).await? {
        Some(order) => Json(order).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        // The texts of the database are for its operator: they name tables and constraints.
        let (status, text, message) = match self {
            Self::Invalid(message) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "the order is not valid\n", message)
            }
            Self::Unavailable(message) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the database is unavailable; try again\n",
                message,
            ),
            Self::Unknown(message) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "the outcome is unknown\n", message)
            }
        };
        report(format_args!("response {}: {message}", status.as_u16()));
        (status, text).into_response()
    }
}
