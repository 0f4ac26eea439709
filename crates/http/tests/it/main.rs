//! Tests of the HTTP/1.1 parts through their public API.

mod access;
mod body;
mod conditional;
mod properties;
mod request;
mod response;
