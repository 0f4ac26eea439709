//! C types, and names with several declarations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A step from a type to the one that it is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Derivation {
    Pointer,
    /// With the number of elements, if it is known.
    Array(Option<u64>),
}

/// A C type: a name, and the pointers and arrays that are made of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Type {
    /// The tag of a structure, the name of another type. Anonymous structures have the name of their typedef.
    pub(crate) base: String,
    /// The outermost is the first: an array of pointers begins with the array.
    pub(crate) derived: Vec<Derivation>,
}

impl Type {
    /// A type without pointers and arrays.
    pub(crate) fn new(base: impl Into<String>) -> Self {
        Self { base: base.into(), derived: Vec::new() }
    }

    /// The type of a name with several meanings.
    pub(crate) fn unknown() -> Self {
        Self::default()
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.base.is_empty()
    }

    /// The type that `*` or an index yields.
    pub(crate) fn element(mut self) -> Option<Self> {
        (!self.derived.is_empty()).then(|| {
            self.derived.remove(0);
            self
        })
    }

    pub(crate) fn pointer(mut self) -> Self {
        self.derived.insert(0, Derivation::Pointer);
        self
    }

    /// The type of a parameter or a value: an array is a pointer to its first element.
    pub(crate) fn decayed(mut self) -> Self {
        if let Some(outermost) = self.derived.first_mut() {
            *outermost = Derivation::Pointer;
        }
        self
    }
}

/// Meanings of names. Those in the sources precede those in libraries; of several different ones none counts.
#[derive(Debug)]
pub(crate) struct Names<T> {
    by_name: HashMap<String, Meaning<T>>,
}

#[derive(Debug)]
struct Meaning<T> {
    /// `None`: there are several.
    is: Option<T>,
    is_own: bool,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new() }
    }
}

impl<T: PartialEq> Names<T> {
    pub(crate) fn add(&mut self, name: String, meaning: T, is_own: bool) {
        match self.by_name.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Meaning { is: Some(meaning), is_own });
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                if is_own && !known.is_own {
                    *known = Meaning { is: Some(meaning), is_own };
                } else if is_own == known.is_own && known.is.as_ref() != Some(&meaning) {
                    known.is = None;
                }
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.by_name.get(name)?.is.as_ref()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_two_meanings_has_none() {
        let mut names = Names::default();
        names.add("library".to_owned(), 1, false);
        names.add("library".to_owned(), 2, true);
        names.add("library".to_owned(), 3, false);
        assert_eq!(names.get("library"), Some(&2));
        for value in [1, 2, 1] {
            names.add("own".to_owned(), value, true);
        }
        assert_eq!((names.get("own"), names.contains("own")), (None, true));
    }
}
