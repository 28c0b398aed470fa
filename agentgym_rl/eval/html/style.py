"""The look of a page. Every colour is a variable with a light and a dark value."""

from agentgym_rl.eval.html.palette import DARK, GRID, INK, MUTED, SURFACE


def variable(colour: str) -> str:
    """A colour of the palette as the page knows it."""
    return f"var(--c{colour[1:]})"


def border(dashes: str) -> str:
    """The border style that looks most like a line style."""
    return {"-": "solid", "--": "dashed"}.get(dashes, "dotted")


def colours() -> str:
    """The palette as CSS variables."""
    both = DARK | {SURFACE: "#141417"}
    named = {"surface": SURFACE, "ink": INK, "muted": MUTED, "grid": GRID}
    palette = "".join(f"--c{light[1:]}:light-dark({light},{dark});" for light, dark in both.items())
    names = "".join(f"--{name}:{variable(colour)};" for name, colour in named.items())
    return f":root{{color-scheme:light dark;{palette}{names}--card:light-dark(#fafaf8,#1b1b1f)}}"


CSS = """
*{box-sizing:border-box}
html{scroll-padding-top:140px}
body{margin:0;background:var(--surface);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
header,main{max-width:1200px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
main{padding-bottom:80px}
h1{font-size:28px;font-weight:650;letter-spacing:-.02em;margin:0}
h2{font-size:19px;font-weight:650;letter-spacing:-.01em;margin:0 0 4px}
h3{font-size:15px;font-weight:650;margin:0 0 10px}
small{font-size:13px;font-weight:400;color:var(--muted)}
a{color:inherit;text-underline-offset:3px;text-decoration-color:var(--muted)}
:focus-visible{outline:2px solid var(--c0072b2);outline-offset:2px;border-radius:4px}
.skip{position:absolute;left:-999px}
.skip:focus{left:12px;top:8px;z-index:3;background:var(--surface);padding:4px 10px}
.lead,.note,.muted,.interval{color:var(--muted)}
.lead{margin:4px 0 14px}
.note{font-size:13px;max-width:90ch;margin:2px 0 12px}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
nav a{text-decoration:none;color:var(--muted)}
nav a:hover{color:var(--ink);text-decoration:underline}
section{margin-top:48px}
section>.note:last-child{margin-top:10px}

.tools{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;align-items:center;gap:8px 18px;margin-top:18px;
 padding:10px max(24px,calc(50vw - 576px));background:color-mix(in srgb,var(--surface) 92%,transparent);
 backdrop-filter:blur(8px);border-block:1px solid var(--grid);font-size:13px}
.switch{display:flex;align-items:center;border:1px solid var(--grid);border-radius:8px;padding:0;margin:0;min-width:0}
.switch legend{float:left;padding:0 10px;color:var(--muted)}
.switch label{position:relative;cursor:pointer}
.switch input{position:absolute;inset:0;opacity:0;margin:0;cursor:pointer}
.switch span{display:block;padding:4px 11px;border-radius:7px}
.switch :not(:checked)+span:hover,.switch input:not(:checked):hover+span{background:var(--grid)}
.switch :checked+span{background:var(--ink);color:var(--surface)}
.switch :focus-visible+span{outline:2px solid var(--c0072b2);outline-offset:2px}
.switch :disabled+span{color:var(--muted);opacity:.55;text-decoration:line-through;cursor:not-allowed}
.chips{display:flex;flex-wrap:wrap;gap:6px;flex:1 0 100%;order:1;max-height:98px;overflow-y:auto}
.seeds-of{white-space:nowrap}
.chip,.choice{display:inline-flex;align-items:center;gap:7px;font:inherit;color:inherit;background:none;cursor:pointer;
 border:1px solid var(--grid);border-radius:8px;padding:3px 10px;text-align:left}
.choice{margin-left:auto}.choice+.choice{margin-left:-8px}
.chip i{width:20px;border-top:3px solid var(--hue);flex:none}
.chip[aria-pressed=false]{opacity:.45;text-decoration:line-through}
.choice input{margin:0}
[hidden]{display:none!important}

.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr));gap:16px}
.card{border:1px solid var(--grid);border-radius:12px;background:var(--card);padding:16px 18px}
.card ul{list-style:none;margin:0;padding:0;display:grid;gap:11px}
.card li{display:flex;flex-wrap:wrap;gap:1px 12px;font-size:13px;align-items:baseline}
.name{overflow-wrap:anywhere}
.figure{margin-left:auto;font-variant-numeric:tabular-nums;white-space:nowrap}
.best{font-weight:700}
.bar{position:relative;flex:0 0 100%;height:12px;border-radius:3px;
 background:color-mix(in srgb,var(--grid) 55%,transparent)}
.bar i{position:absolute;display:block}
.bar .fill{inset:0 auto 0 0;border-radius:3px;background:var(--hue);opacity:.55}
.bar .range{top:5px;height:2px;background:var(--ink)}
.bar .seed{width:4px;height:4px;margin-left:-2px;top:4px;border-radius:50%;background:var(--ink);
 box-shadow:0 0 0 1px var(--surface)}

.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr));gap:24px 28px}
.figures figure:only-child{grid-column:1/-1}
figure{margin:0;min-width:0;overflow-x:auto}
figcaption{margin-bottom:4px}
.chart{display:block;width:100%;min-width:380px;height:auto;overflow:visible}
.chart:focus-visible{outline-offset:-1px}
.chart text{font:12px system-ui,sans-serif;fill:var(--muted)}
.grid{stroke:var(--grid)}
.line{fill:none;stroke:var(--hue);stroke-width:2;stroke-linejoin:round}
.band{fill:var(--hue);opacity:.15}
.series circle{fill:var(--hue);stroke:var(--surface);stroke-width:1}
.series .hollow{fill:var(--surface);stroke:var(--hue);stroke-width:1.6}
.crowded circle{opacity:0}
.series .shown{opacity:1;stroke:var(--ink);stroke-width:2;r:5}
.off{display:none}
.along{display:none}
:root:has(#x-episodes:checked) [data-x=episodes],:root:has(#x-tokens:checked) [data-x=tokens],
:root:has(#x-minutes:checked) [data-x=minutes],:root:has(#x-steps:checked) [data-x=steps]{display:block}
#point{position:fixed;z-index:4;margin:0;max-width:min(420px,90vw);padding:6px 10px;border-radius:8px;font-size:13px;
 background:var(--ink);color:var(--surface);pointer-events:none}
.key-list{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:0 0 12px;padding:0;font-size:13px}
.key-list i{display:inline-block;width:18px;margin-right:7px;border-top:3px solid var(--hue);vertical-align:middle}
.note b{font-weight:600;color:var(--ink)}

.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:9px 16px 9px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
thead th{font-size:13px;font-weight:600;vertical-align:bottom;min-width:76px}
thead small{display:block;font-size:12px}
tbody th{font-weight:500;min-width:150px}
tbody tr:hover{background:color-mix(in srgb,var(--grid) 35%,transparent)}
th i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:9px}
.value{font-size:16px;margin-right:8px}
.interval{font-size:12px;white-space:nowrap}
.strip{display:block;width:100%;min-width:110px;max-width:190px;height:18px;margin-top:3px;overflow:visible}
.strip .axis{stroke:var(--grid);stroke-width:1}
.seeds{display:none}
.seeds span{display:block}
:root:has(#seeds:checked) .seeds{display:block}
.key,.code{font:12.5px/1.6 ui-monospace,monospace;overflow-wrap:anywhere}
tbody .key{min-width:230px}
@media print{.tools,nav{display:none}header,main{max-width:none;padding:0}figure,.card,tr{break-inside:avoid}}
@media(max-width:760px){
 .tools{position:static}.chips{max-height:none}
 .choice{margin-left:0}.switch legend{display:none}}
"""
