//! Start, configuration, reload, logs and end of the server.

mod activation;
mod arguments;
mod configuration;
mod descriptors;
mod drain;
mod includes;
mod logs;
mod lost_messages;
mod reload;
mod resources;
