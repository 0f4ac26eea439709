pub(crate) mod leak_check;
pub(crate) mod stepping;
