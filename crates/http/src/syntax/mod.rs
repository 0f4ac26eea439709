//! Parts of fields: bytes, dates and tags.

pub(crate) mod bytes;
pub(crate) mod date;
pub(crate) mod etag;
