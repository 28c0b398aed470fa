async ([seed, mode, limit, wait]) => {
    Math.seedrandom(seed)
    core.setDataMode(mode)
    if (limit) core.EPISODE_MAX_TIME = limit
    core.startEpisodeReal()
    core.hideDisplay()
    document.getElementById('click-canvas').style.display = 'none'
    const query = document.getElementById('query')
    const said = core.getUtterance()
    if (query) query.style.visibility = 'hidden'
    await agentgymClock.advance(wait)
    return said.utterance || said
}
