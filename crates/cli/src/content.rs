//! Options of `phalanx web` for the content of the default host.

use clap::Args;
use phalanx_web::HostConfig;

use crate::settings::yes_or_no;

/// Content options.
#[derive(Args, Clone)]
#[command(next_help_heading = "Content")]
pub(crate) struct Content {
    /// File to send for a directory; may be given several times, and the first existing one is used. [default:
    /// index.html]
    #[arg(long = "index", value_name = "NAME", env, value_delimiter = ',')]
    index: Vec<String>,

    /// List directories without an index file, as HTML or, if requested by Accept, as JSON.
    #[arg(long, env, value_parser = yes_or_no())]
    listing: bool,

    /// File to send with status 200 for page requests that match no file, for single-page applications with
    /// client-side routing.
    #[arg(long, value_name = "FILE", env)]
    fallback: Option<String>,

    /// File to send with an error status, as in 404=404.html; may be given several times.
    #[arg(long = "error-page", value_name = "STATUS=FILE", value_parser = error_page, env, value_delimiter = ',')]
    error_pages: Vec<(u16, String)>,

    /// Send file.br, file.zst or file.gz instead of the file to clients that accept it, if it exists and is not
    /// older.
    #[arg(long, env, value_parser = yes_or_no())]
    precompressed: bool,

    /// Compress text files in the cache, once per file, for clients that accept it.
    #[arg(long, env, value_parser = yes_or_no())]
    compress: bool,
}

impl Content {
    /// Applies the options that are given.
    pub(crate) fn apply(&self, host: &mut HostConfig) {
        if !self.index.is_empty() {
            // An empty name disables index files.
            host.index = self.index.iter().filter(|name| !name.is_empty()).cloned().collect();
        }
        if !self.error_pages.is_empty() {
            host.error_pages.clone_from(&self.error_pages);
        }
        if self.fallback.is_some() {
            host.fallback.clone_from(&self.fallback);
        }
        host.listing |= self.listing;
        host.precompressed |= self.precompressed;
        host.compress |= self.compress;
    }
}

fn error_page(text: &str) -> Result<(u16, String), String> {
    let (status, file) = text.split_once('=').ok_or("expected STATUS=FILE, as in 404=404.html")?;
    match status.parse() {
        Ok(code @ 400..=599) if !file.is_empty() => Ok((code, file.to_owned())),
        Ok(400..=599) => Err("no file after the equals sign".into()),
        _ => Err(format!("{status:?} is not an error status from 400 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_pages() {
        assert_eq!(error_page("404=a=b.html"), Ok((404, "a=b.html".into())));
        for (text, says) in [
            ("404", "404=404.html"),
            ("200=a", "400 to 599"),
            ("x=a", "\"x\""),
            ("500=", "no file"),
        ] {
            assert!(error_page(text).unwrap_err().contains(says), "{text}");
        }
    }
}
