//! Style sheets, with a light and a dark theme.

/// Style of the drawing, which the standalone SVG also contains.
pub(super) const PICTURE: &str = "\
:root{--page:#f6f7f9;--box:#fff;--line:#d5d9e0;--text:#1c2330;--soft:#5d6779;--heat:#ff7a1a;\
--busy:#f06a10;--rest:#dfe3ea;--arc:#7b8aa3;--cross:#2f7de1;--out:#2c9a6c;--bad:#c9202d;--link:#1d63bd}\
@media(prefers-color-scheme:dark){:root{--page:#0f1319;--box:#1a212b;--line:#313b49;--text:#e8ecf2;\
--soft:#93a0b4;--heat:#ff6a00;--busy:#ff8636;--rest:#2a3340;--arc:#73839b;--cross:#6aa8ff;\
--out:#4cc490;--bad:#ff5d68;--link:#6aa8ff}}\
.phalanx{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif;\
font-variant-numeric:tabular-nums}\
.phalanx text{fill:var(--text)}\
.phalanx .p{font-size:14px;font-weight:600}\
.phalanx .s{font-size:13px;font-weight:600}\
.phalanx .n,.phalanx .l,.phalanx .h{fill:var(--soft)}\
.phalanx .h{font-size:10px}\
.phalanx .h,.phalanx .c,.phalanx .e{text-anchor:end}\
.phalanx .l{text-anchor:start}\
.phalanx .m{text-anchor:middle}\
.phalanx .a{font-size:10px;fill:var(--soft);paint-order:stroke;stroke:var(--page);stroke-width:3px}\
.phalanx .bad{fill:var(--bad);font-weight:600}\
.phalanx .box{fill:var(--box);stroke:var(--line)}\
.phalanx .heat{fill:var(--heat)}\
.phalanx .ring{fill:none;stroke:var(--bad);stroke-width:3}\
.phalanx .line{stroke:var(--line);fill:none}\
.phalanx .rest{fill:var(--rest)}\
.phalanx .busy{fill:var(--busy)}\
.phalanx .arc{fill:none;stroke:var(--arc);opacity:.8}\
.phalanx .cross{stroke:var(--cross);opacity:.65}\
.phalanx .out{stroke:var(--out)}\
.phalanx .tip{fill:var(--text)}\
.phalanx .idle{opacity:.7}";

/// Style of the page.
pub(super) const PAGE: &str = "\
*{box-sizing:border-box}\
html{color-scheme:light dark}\
body{margin:0;padding:14px 18px 28px;background:var(--page);color:var(--text);\
font:14px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif}\
header,footer{max-width:1640px;margin:0 auto}\
header{display:flex;flex-wrap:wrap;gap:4px 18px;align-items:baseline;margin-bottom:14px}\
h1{font-size:17px;margin:0}\
nav{margin-left:auto;display:flex;flex-wrap:wrap;gap:2px 14px}\
a{color:var(--link);text-decoration:none}\
a:hover{text-decoration:underline}\
button{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);\
border-radius:6px;padding:1px 10px;cursor:pointer}\
button[hidden]{display:none}\
.facts{color:var(--soft);font-variant-numeric:tabular-nums;margin:0 auto 12px;max-width:1640px}\
.facts b{color:var(--text);font-weight:600}\
.headline{display:grid;grid-template-columns:repeat(auto-fit,minmax(160px,1fr));gap:8px;max-width:1640px;\
margin:0 auto 12px;font-variant-numeric:tabular-nums}\
.headline div{background:var(--box);border:1px solid var(--line);border-radius:7px;padding:6px 10px}\
.headline dt{color:var(--soft);font-size:12.5px}\
.headline dd{margin:0;font-size:20px;font-weight:600;line-height:1.3}\
.headline .more{display:flex;flex-wrap:wrap;gap:0 8px;font-size:12.5px;font-weight:400;color:var(--soft)}\
.headline b{color:var(--text);font-weight:600}\
.headline .bad,.headline .bad b{color:var(--bad)}\
dl.program{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;max-width:1640px;margin:0 auto 12px;\
font-variant-numeric:tabular-nums}\
.program dt{color:var(--soft)}\
.program dd{margin:0;display:flex;flex-wrap:wrap;gap:0 16px}\
.wide,.narrow{display:block;max-width:100%;height:auto;margin:0 auto}\
.narrow{display:none}\
@media(max-width:700px){.headline{grid-template-columns:1fr 1fr}.headline div:is(:first-child,:last-child){grid-column:1/-1}\
dl.program{grid-template-columns:1fr}.program dd{margin-left:10px}\
.wide{display:none}.narrow{display:block}body{padding:10px 8px}\
nav{margin-left:0}}\
footer{color:var(--soft);font-size:12.5px;margin-top:10px}\
footer p{margin:4px 0}\
.stale main{opacity:.45}\
.key{display:inline-block;width:18px;height:0;border-top:3px solid;vertical-align:middle;\
margin:0 4px 0 10px}";
