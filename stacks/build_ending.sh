# Reports that a build ends, beside CodeBuild's own event, which may be lost. lambda/build_image then asks CodeBuild how
# it ended.
detail="{\"build-status\": \"ENDING\", \"project-name\": \"${CODEBUILD_BUILD_ID%%:*}\", \"build-id\": \"$CODEBUILD_BUILD_ID\"}"
escaped=$(echo "$detail" | sed 's/"/\\"/g')
aws events put-events --entries \
    "[{\"Source\": \"$EVENT_SOURCE\", \"DetailType\": \"Build Ending\", \"Detail\": \"$escaped\"}]" ||
    echo "The event that this build ends was not put; CodeBuild's own event has to arrive."
