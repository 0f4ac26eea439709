//! Files below a root: their paths, hosts, listings and passwords, and changes while they are served.

mod aliases;
mod auth;
mod changes;
mod confinement;
mod fallback;
mod large;
mod listings;
mod rules;
mod tree;
