//! Configuration files, and the files that they include.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use glob::{MatchOptions, Pattern, glob_with};
use phalanx_config::{ConfigError, Keys, Origins, read_included};

/// Maximum nesting depth of included files.
const MAX_DEPTH: usize = 8;
/// Maximum number of files of a configuration.
const MAX_FILES: usize = 1000;

/// The texts read from pipes. A pipe can be read only once, so a reload reuses its text.
#[derive(Clone, Default)]
pub(crate) struct Pipes(Arc<Mutex<HashMap<PathBuf, String>>>);

impl Pipes {
    /// Whether the text of this path came from a pipe.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path)
    }

    /// The text of a file. A file that is not a regular file is read only once.
    fn read(&self, path: &Path) -> io::Result<String> {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(path) {
            return Ok(text.clone());
        }
        let (mut file, mut text) = (File::open(path)?, String::new());
        file.read_to_string(&mut text)?;
        if !file.metadata()?.is_file() {
            texts.insert(path.to_owned(), text.clone());
        }
        Ok(text)
    }
}

/// Reads the file at `path`, then the files that it includes, each followed by those that it includes itself.
///
/// # Errors
/// All errors of all files.
pub(crate) fn read(
    config: &mut impl Keys,
    path: &Path,
    origins: &mut Origins,
    pipes: &Pipes,
) -> Result<(), Vec<ConfigError>> {
    let mut files =
        Files { config, origins, pipes, files_read: HashSet::new(), errors: Vec::new() };
    match pipes.read(path) {
        Ok(text) => {
            // A pipe, such as /dev/stdin, has no canonical path; no other file includes it.
            files.files_read.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
            files.add(path, &text, 0);
        }
        Err(error) => {
            let name = path.display().to_string();
            files.errors.push(ConfigError::new(&name, "", &error.to_string()));
        }
    }
    if files.errors.is_empty() { Ok(()) } else { Err(files.errors) }
}

/// State of reading the files of a configuration.
struct Files<'a, K> {
    config: &'a mut K,
    origins: &'a mut Origins,
    pipes: &'a Pipes,
    /// The files that were read.
    files_read: HashSet<PathBuf>,
    errors: Vec<ConfigError>,
}

impl<K: Keys> Files<'_, K> {
    /// Reads the text of the file at `path`, and the files that it includes.
    fn add(&mut self, path: &Path, text: &str, depth: usize) {
        let (name, base) = (path.display().to_string(), path.parent().unwrap_or(Path::new("")));
        let read = if depth == 0 { phalanx_config::read } else { read_included };
        self.errors
            .extend(read(self.config, text, &name, base, self.origins).err().into_iter().flatten());
        for (pattern, origin) in self.origins.take_includes() {
            if let Err(message) = self.include(base, &pattern, depth + 1) {
                self.errors.push(ConfigError::new(&origin, "include", &message));
            }
        }
    }

    /// Reads the files that match a pattern relative to `base`, in the order of their names.
    fn include(&mut self, base: &Path, pattern: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "{pattern:?} is more than {MAX_DEPTH} files deep; include it from an earlier file"
            ));
        }
        let unreadable =
            |path: &Path, error: io::Error| format!("cannot read {}: {error}", path.display());
        for path in matching(base, pattern)? {
            let text = self.pipes.read(&path).map_err(|error| unreadable(&path, error))?;
            let canonical = fs::canonicalize(&path).map_err(|error| unreadable(&path, error))?;
            if !self.files_read.insert(canonical) {
                return Err(format!("{} is included twice", path.display()));
            }
            if self.files_read.len() > MAX_FILES {
                return Err(format!("more than {MAX_FILES} files; join some of them"));
            }
            self.add(&path, &text, depth);
        }
        Ok(())
    }
}

/// The files that match a pattern relative to `base`. Wildcards match no hidden files, as in a shell.
fn matching(base: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = base.join(pattern);
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let Some(base) = base.to_str() else {
        return Err(format!(
            "found {pattern:?}, but the directory {} is not UTF-8",
            base.display()
        ));
    };
    let absolute = Path::new(&Pattern::escape(base)).join(pattern);
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let found = glob_with(&absolute.to_string_lossy(), options);
    let found =
        found.map_err(|error| format!("found {pattern:?}, which is not a valid glob: {error}"))?;
    found.map(|path| path.map_err(|error| error.to_string())).collect()
}
