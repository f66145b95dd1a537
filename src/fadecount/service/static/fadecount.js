// Reports visits to the pages that load it: no cookies, no storage, no query strings.
(() => {
  const me = document.currentScript, n = navigator, l = location;
  if (n.doNotTrack == "1" || n.globalPrivacyControl || !me) return;
  let last;
  const report = () => {
    if (last == l.pathname) return;
    last = l.pathname;
    fetch(new URL("api/event", me.src), {
      method: "POST", keepalive: true, credentials: "omit", referrerPolicy: "no-referrer",
      body: JSON.stringify({n: "pageview", u: l.origin + last, d: me.dataset.domain || l.hostname}),
    }).catch(() => {});
  };
  const push = history.pushState;
  history.pushState = (...how) => { push.apply(history, how); report(); };
  addEventListener("popstate", report);
  addEventListener("pageshow", (event) => { if (event.persisted) { last = 0; report(); } });
  if (document.prerendering) document.addEventListener("prerenderingchange", report, {once: true});
  else report();
})();
