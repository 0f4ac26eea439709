//! Packets, messages and sessions.

mod answers;
mod content;
mod filter_examples;
mod flow;
mod limits;
mod refusals;
mod retained;
mod sessions;
mod subscriptions;
mod validation;
mod websocket;
mod wills;
