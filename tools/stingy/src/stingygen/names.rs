//! Names of objects and stages in the generated code.

use std::collections::HashMap;

/// Names that the generated header defines.
const OWN: [&str; 7] = [
    "STINGY_H",
    "STINGY_L2_BYTES",
    "STINGY_BUDGET_PERCENT",
    "STINGY_MIN_REQUESTS",
    "STINGY_MAX_REQUESTS",
    "STINGY_OBJECTS",
    "STINGY_STAGES",
];

/// The enumerator of an object.
pub(crate) fn object(name: &str) -> String {
    format!("STINGY_{}", identifier(name))
}

/// The enumerator of a stage.
pub(crate) fn stage(name: &str) -> String {
    format!("STINGY_STAGE_{}", identifier(name))
}

/// Two names whose enumerators are equal.
pub(crate) fn equal<'n>(
    objects: impl Iterator<Item = &'n str>,
    stages: impl Iterator<Item = &'n str>,
) -> Option<(&'n str, &'n str)> {
    let own = OWN.map(|name| (name.to_owned(), "stingy.h"));
    let mut known: HashMap<String, &str> = own.into();
    let all =
        objects.map(|name| (object(name), name)).chain(stages.map(|name| (stage(name), name)));
    for (enumerator, name) in all {
        if let Some(other) = known.insert(enumerator, name) {
            return Some((other, name));
        }
    }
    None
}

/// Replaces characters that identifiers cannot contain, as in `connection.buffer`.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_enumerators_are_found() {
        let equal = |objects: &[&'static str], stages: &[&'static str]| {
            equal(objects.iter().copied(), stages.iter().copied())
        };
        assert_eq!(equal(&["a.b", "f:c"], &["a_b"]), None);
        assert_eq!(equal(&["a.b", "a_b"], &[]), Some(("a.b", "a_b")));
        assert_eq!(equal(&["STAGE:a"], &["a"]), Some(("STAGE:a", "a")));
        assert_eq!(equal(&["OBJECTS"], &[]), Some(("stingy.h", "OBJECTS")));
        assert!(equal(&["H"], &[]).is_some());
    }
}
