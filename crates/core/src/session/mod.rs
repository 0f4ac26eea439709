//! Groups of operations that end together: one processor's table of them, and the flag that the
//! processors share.

pub(crate) mod group_flag;
pub(crate) mod table;
