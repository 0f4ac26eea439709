//! Tests of the filter language and of the index through their public API.

mod common;
mod index;
mod language;
mod queues;
