//! Tests of password files and access rules through their public API.

mod passwords;
mod rules;
mod services;
