//! Uses of functions that are no call in the syntax tree: in macros, as values, in text that was not parsed, and in
//! headers that are no sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::words::{Word, includes, is_called, is_declared, words};
use crate::c::function::Function;
use crate::c::source::{File, unparenthesized};
use crate::memwalk::events::Event;
use crate::model::Place;

/// The texts of sources and of the headers beside them.
pub(super) struct Texts<'s> {
    all: Vec<(PathBuf, std::borrow::Cow<'s, str>)>,
}

/// Positions of names that a tool understands, by file.
#[derive(Debug, Default)]
pub(super) struct Understood {
    at: BTreeSet<(PathBuf, usize)>,
    within: Vec<(PathBuf, std::ops::Range<usize>)>,
}

impl Understood {
    /// The name of the function that an event calls.
    pub(super) fn add_call(&mut self, function: &Function<'_>, event: &Event<'_>) {
        if let Some(callee) = event.node.child_by_field_name("function").map(unparenthesized) {
            self.at.insert((function.file.path.clone(), callee.start_byte()));
        }
    }

    /// All names in a part of a file.
    pub(super) fn add_range(&mut self, file: &File, range: std::ops::Range<usize>) {
        self.within.push((file.path.clone(), range));
    }

    fn contains(&self, path: &Path, at: usize) -> bool {
        self.at.contains(&(path.to_owned(), at))
            || self.within.iter().any(|(file, range)| file == path && range.contains(&at))
    }
}

/// A use of a function.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) at: Place,
    pub(super) name: String,
    pub(super) is_call: bool,
}

impl<'s> Texts<'s> {
    /// Adds the headers that sources include from their own folders, the description's folder, or those of other
    /// sources.
    pub(super) fn load(folder: &Path, files: &'s [File]) -> Self {
        let mut all: Vec<(PathBuf, std::borrow::Cow<'s, str>)> =
            files.iter().map(|file| (file.path.clone(), file.text.as_str().into())).collect();
        let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
        let mut folders: BTreeSet<PathBuf> = files.iter().map(|file| parent(&file.path)).collect();
        folders.insert(PathBuf::new());
        let mut known: BTreeSet<PathBuf> =
            files.iter().filter_map(|file| folder.join(&file.path).canonicalize().ok()).collect();
        let mut next = 0;
        while next < all.len() {
            let (path, text) = &all[next];
            let own_folder = parent(path);
            let mut found = Vec::new();
            for name in includes(text) {
                let places =
                    std::iter::once(&own_folder).chain(&folders).map(|place| place.join(name));
                for header in places {
                    let Ok(full_path) = folder.join(&header).canonicalize() else { continue };
                    if known.insert(full_path.clone())
                        && let Ok(bytes) = std::fs::read(&full_path)
                    {
                        found.push((header, String::from_utf8_lossy(&bytes).into_owned().into()));
                    }
                    break;
                }
            }
            all.extend(found);
            next += 1;
        }
        Self { all }
    }

    /// The headers that a source includes, directly or through others.
    pub(super) fn headers(&self, file: &File) -> Vec<&str> {
        let mut found = Vec::new();
        let mut known = BTreeSet::new();
        let mut todo = vec![file.text.as_str()];
        while let Some(text) = todo.pop() {
            for name in includes(text) {
                let header = self.all.iter().find(|(path, _)| path.ends_with(name));
                if let Some((_, text)) = header.filter(|(path, _)| known.insert(path)) {
                    found.push(text.as_ref());
                    todo.push(text);
                }
            }
        }
        found
    }

    /// The macros whose definitions use one of these names, directly or through other macros.
    pub(super) fn macros(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let all: Vec<Word<'_>> = self.all.iter().flat_map(|(_, text)| words(text)).collect();
        loop {
            let is_used = |word: &&Word<'_>| names.contains(word.text) || found.contains(word.text);
            let new: BTreeSet<String> = all
                .iter()
                .filter(is_used)
                .filter_map(|word| word.defines)
                .filter(|name| !found.contains(*name) && !names.contains(*name))
                .map(str::to_owned)
                .collect();
            if new.is_empty() {
                return found;
            }
            found.extend(new);
        }
    }

    /// The uses of these names that are neither understood nor in the definition of a macro.
    pub(super) fn others(&self, names: &BTreeSet<String>, understood: &Understood) -> Vec<Use> {
        let mut found = Vec::new();
        for (path, text) in &self.all {
            let used = words(text).into_iter().filter(|word| {
                names.contains(word.text)
                    && word.defines.is_none()
                    && !is_declared(text, *word)
                    && !understood.contains(path, word.start)
            });
            found.extend(used.map(|word| Use {
                at: Place {
                    file: path.clone(),
                    line: 1 + text[..word.start].matches('\n').count(),
                },
                name: word.text.to_owned(),
                is_call: is_called(text, word),
            }));
        }
        found
    }
}
