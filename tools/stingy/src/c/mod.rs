//! C programs: sources, and what the compiler recorded about them.
//!
//! Sources are parsed without preprocessing, so that every finding has a position in the file that the programmer
//! edits. Sizes, members and types are the compiler's, from the debugging information of the built program.

mod blank;
mod conditionals;
pub(crate) mod debug_info;
mod dwarf;
pub(crate) mod expression;
pub(crate) mod function;
pub(crate) mod lines;
mod macros;
pub(crate) mod source;
pub(crate) mod stack_usage;
pub(crate) mod targets;
pub(crate) mod types;
