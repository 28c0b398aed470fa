quiet => new Promise(done => {
    let timer
    const seen = new MutationObserver(wait)
    function wait() {
        clearTimeout(timer)
        timer = setTimeout(() => { seen.disconnect(); done() }, quiet)
    }
    seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true})
    wait()
})
