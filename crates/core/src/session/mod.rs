pub(crate) mod group_flag;
pub(crate) mod table;
