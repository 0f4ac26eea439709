//! The names of the store's files.

/// The empty file whose lock marks a directory as in use.
pub(crate) const LOCK: &str = "lock";

/// The file with the position of the journal's end.
pub(crate) const POSITION: &str = "position";

/// The file that reserves space.
pub(crate) const RESERVE: &str = "reserve";

const SUFFIX: &str = ".journal";

/// The file name of segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:012}{SUFFIX}")
}

/// The segment number in a file name; `None` for other files.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok().filter(|number| *number > 0)?;
    (segment_name(number) == name).then_some(number)
}

/// Whether a file name belongs to the store.
pub(crate) fn is_own(name: &str) -> bool {
    let others = [LOCK, POSITION, RESERVE];
    segment_number(name).is_some() || others.contains(&name)
}

/// Whether a file belongs to the stored state, which is lost without it.
pub fn is_journal_file(name: &str) -> bool {
    segment_number(name).is_some() || name == POSITION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_numbers() {
        for number in [1, 42, 999_999_999_999, u64::MAX] {
            assert_eq!(segment_number(&segment_name(number)), Some(number));
        }
        for name in
            ["lock", "1.journal", "000000000000.journal", "+00000000001.journal", ".journal"]
        {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
