"""The look of a page; colours are variables that the page defines."""

CSS = """
*{box-sizing:border-box}
body{margin:0;background:var(--surface);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:40px 24px 80px}
h1{font-size:28px;font-weight:650;letter-spacing:-.02em;margin:0}
h2{font-size:17px;font-weight:650;margin:0 0 12px}
.lead,.note,.muted,.interval{color:var(--muted)}
.lead{margin:4px 0 0}
.note{font-size:13px;max-width:80ch;margin:10px 0 0}
section,details{margin-top:44px}
summary{font-size:17px;font-weight:650;cursor:pointer;margin-bottom:12px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:9px 16px 9px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
thead th{font-size:13px;font-weight:600;vertical-align:bottom;white-space:nowrap}
thead small{display:block;font-size:12px;font-weight:400;color:var(--muted)}
tbody th{font-weight:500;min-width:150px}
tbody tr:hover{background:color-mix(in srgb,var(--grid) 35%,transparent)}
th i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:9px}
.value{font-size:16px;margin-right:8px}
.best{font-weight:700}
.interval{font-size:12px;white-space:nowrap}
.strip{display:block;width:100%;min-width:110px;max-width:190px;height:18px;margin-top:3px;overflow:visible}
.strip .axis{stroke:var(--grid);stroke-width:1}
.key,.code{font:12.5px/1.6 ui-monospace,monospace;overflow-wrap:anywhere}
figure{margin:0}
figure svg{width:100%;height:auto}
@media print{main{max-width:none;padding:0}section{break-inside:avoid}}
"""
