//! Representations of a file: content codings, ranges, conditions and fields.

mod compression;
mod conditional;
mod encodings;
mod fields;
mod multipart;
mod ranges;
