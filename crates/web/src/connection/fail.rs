//! Error responses: the host's own error page, or the built-in one.

use std::io;

use phalanx_http::{Head, Status, error_lines, error_page_with};

use crate::connection::answer::Part;
use crate::connection::clock::with_date;
use crate::connection::outgoing::Outgoing;
use crate::connection::respond::Ask;
use crate::files::lookup::{Found, look_up};

/// Responds with `status`. `whole` is the length of the requested representation, if it is known.
pub(super) async fn fail(
    out: &mut Outgoing,
    ask: Ask<'_>,
    status: Status,
    whole: Option<u64>,
) -> io::Result<()> {
    fail_with(out, ask, status, &error_lines(status, whole)).await
}

/// As [`fail`], with additional header `lines`.
pub(super) async fn fail_with(
    out: &mut Outgoing,
    ask: Ask<'_>,
    status: Status,
    lines: &[u8],
) -> io::Result<()> {
    let errors = &ask.site[ask.host].config.error_pages;
    let page = errors.iter().find(|(code, _)| *code == status.code());
    if let Some((_, page)) = page
        && Box::pin(own_page(out, ask, status, lines, page)).await?
    {
        return Ok(());
    }
    let start = out.bytes.len();
    with_date(|date| error_page_with(&mut out.bytes, status, lines, date, ask.reply));
    let is_tls = out.is_tls();
    ask.site[ask.host].finish(&mut out.bytes, start, false, ask.request, is_tls);
    Ok(())
}

/// Responds with the host's error page. Returns false if the page cannot be loaded, which is not an error.
async fn own_page(
    out: &mut Outgoing,
    ask: Ask<'_>,
    status: Status,
    lines: &[u8],
    page: &str,
) -> io::Result<bool> {
    let path = page.trim_start_matches('/').as_bytes().to_vec();
    let (_, result) = look_up(ask.stages, ask.site, ask.host, path).await;
    let Ok(Found::File(entry)) = result else { return Ok(false) };
    let start = out.bytes.len();
    with_date(|date| {
        Head::new(&mut out.bytes, status, date, ask.reply)
            .block(lines)
            // The error may be temporary.
            .block(b"Cache-Control: no-store\r\n")
            .block(entry.entity.type_line())
            .length(entry.length)
            .finish();
    });
    let is_tls = out.is_tls();
    ask.site[ask.host].finish(&mut out.bytes, start, false, ask.request, is_tls);
    if !ask.reply.head_only {
        out.content(ask.site, &entry, Part::all(&entry)).await?;
    }
    Ok(true)
}
