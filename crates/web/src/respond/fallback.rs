//! Fallbacks for a path that is not a file: further index files, a directory listing, the files to try instead, or the
//! host's fallback file.

use phalanx_http::{Status, accepts, names};

use crate::files::cached::FileRef;
use crate::files::failure::Failure;
use crate::files::found::Found;
use crate::files::list;
use crate::files::lookup::look_up;
use crate::listing::{Form, Order, View};
use crate::respond::ask::Ask;
use crate::respond::fail;

/// Finds the file to serve instead, and replaces `path` by its path. `directory` means that the request named a
/// directory whose first index file does not exist. Sets in `asked` whether the result depends on `Accept`.
///
/// # Errors
/// The status of the error response.
pub(super) async fn find_fallback(
    asked: &mut Ask<'_>,
    path: &mut Vec<u8>,
    directory: bool,
) -> Result<FileRef, Status> {
    let ask = *asked;
    let config = &ask.host().config;
    let mut name = std::mem::take(path);
    if directory {
        let first = config.index.first().map_or(0, |index| index.len());
        name.truncate(without_slash(&name[..name.len() - first]).len());
        for index in config.index.iter().skip(1) {
            let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
            *path = [&name, slash, index.as_bytes()].concat();
            if let Some(entry) = file(ask, path).await? {
                return Ok(entry);
            }
        }
        if config.listing {
            path.clone_from(&name);
            list::name(path, view(ask));
            if let Some(entry) = file(ask, path).await? {
                return Ok(entry);
            }
        }
    }
    for other in ask.host().rules.try_files.files(&name, directory) {
        *path = other;
        if let Some(entry) = file(ask, path).await? {
            return Ok(entry);
        }
    }
    if let Some(fallback) = &config.fallback {
        asked.caching = ask.caching.by_accept();
        // Only for page requests: a missing script or image should stay an error.
        if names(ask.request, "text/html") {
            *path = fallback.trim_start_matches('/').as_bytes().to_vec();
            if let Some(entry) = file(ask, path).await? {
                return Ok(entry);
            }
        }
    }
    Err(Status::NotFound)
}

/// Looks up the file at `path`; `None` if it does not exist.
async fn file(ask: Ask<'_>, path: &mut Vec<u8>) -> Result<Option<FileRef>, Status> {
    let (own, result) = look_up(ask.stages.files, ask.site, ask.host, std::mem::take(path)).await;
    *path = own;
    match result {
        Ok(Found::File(entry)) => Ok(Some(entry)),
        Ok(Found::Directory) | Err(Failure::Missing) => Ok(None),
        Err(failure) => Err(fail::status(failure)),
    }
}

/// Format and order of a listing, from the request.
fn view(ask: Ask<'_>) -> View {
    let weight = |essence| accepts(ask.request, essence);
    let (json, page) = (weight("application/json"), weight("text/html"));
    // `*/*` gets the HTML page; JSON requires that the client names it and does not prefer HTML.
    let wants_json = names(ask.request, "application/json")
        && (json > page || json == page && !names(ask.request, "text/html"));
    let form = if wants_json { Form::Json } else { Form::Page };
    View { form, order: Order::of(ask.request.query) }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
