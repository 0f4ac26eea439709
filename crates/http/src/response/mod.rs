//! Responses: their heads in both encodings, and small contents.

pub(crate) mod block;
pub(crate) mod buffer;
pub(crate) mod date_line;
pub(crate) mod encode;
pub(crate) mod entity;
pub(crate) mod head;
pub(crate) mod multipart;
pub(crate) mod page;
pub(crate) mod reply;
