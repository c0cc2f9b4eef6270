# Sends an event that a build is ending, because CodeBuild's own event may be lost. lambda/build_image then asks
# CodeBuild for the result.
detail="{\"build-status\": \"ENDING\", \"project-name\": \"${CODEBUILD_BUILD_ID%%:*}\", \"build-id\": \"$CODEBUILD_BUILD_ID\"}"
escaped=$(echo "$detail" | sed 's/"/\\"/g')
aws events put-events --entries \
    "[{\"Source\": \"$EVENT_SOURCE\", \"DetailType\": \"Build Ending\", \"Detail\": \"$escaped\"}]" ||
    echo "The event for the end of this build could not be sent; only CodeBuild's own event can report it."
